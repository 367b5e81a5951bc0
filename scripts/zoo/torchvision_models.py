"""Networks of torchvision."""
import torch
import torch.nn as nn
import torchvision

from .parts import Part, R, img


vision = torchvision.models


def networks():
    head = lambda m, x: m.head(list(m.backbone(x).values()))["cls_logits"]
    yield "raft_small", lambda: Part(vision.optical_flow.raft_small(weights=None), lambda m, a, b: m(a, b, num_flow_updates=2)[-1]), \
        (R(1, 3, 128, 128), R(1, 3, 128, 128))
    yield "retinanet", lambda: Part(vision.detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None, num_classes=5), head), img(64)
    yield "fcos", lambda: Part(vision.detection.fcos_resnet50_fpn(weights=None, weights_backbone=None, num_classes=5), head), img(64)
    yield "ssdlite", lambda: Part(vision.detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5), head), img(160)
    yield "keypoint_head", lambda: Part(vision.detection.keypointrcnn_resnet50_fpn(weights=None, weights_backbone=None).roi_heads,
                                          lambda m, x: m.keypoint_predictor(m.keypoint_head(x))), (R(1, 256, 14, 14),)
    yield "lraspp", lambda: Part(vision.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None), lambda m, x: m(x)["out"]), img(96)
    yield "googlenet", lambda: vision.googlenet(weights=None, aux_logits=False, init_weights=False), img(64)
    yield "mc3", lambda: vision.video.mc3_18(weights=None), (R(1, 3, 4, 32, 32),)
    yield "s3d", lambda: vision.video.s3d(weights=None), (R(1, 3, 16, 64, 64),)
    yield "mvit_v1", lambda: vision.video.mvit_v1_b(weights=None), (R(1, 3, 16, 224, 224),)
    yield "r2plus1d", lambda: vision.video.r2plus1d_18(weights=None), (R(1, 3, 4, 32, 32),)
    yield "swin3d", lambda: vision.video.swin_transformer.SwinTransformer3d([2, 4, 4], 24, [1, 1], [2, 4], [2, 4, 4]), (R(1, 3, 4, 32, 32),)
    yield "faster_rcnn_rpn", lambda: Part(vision.detection.fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None), lambda m, x: torch.cat([y.flatten(1) for y in m.rpn.head(list(m.backbone(x).values()))[0]], 1)), (R(1, 3, 96, 96),)
    yield "nms_boxes", lambda: Part(nn.Linear(4, 4), lambda m, b, s: torch.gather(b, 0, torchvision.ops.nms(b, s, 0.5)[:1, None].expand(1, 4))), (torch.rand(12, 4).cumsum(1), torch.rand(12))
    yield "roi_align_head", lambda: Part(nn.Linear(8 * 9, 5), lambda m, x, b: m(torchvision.ops.roi_align(x, [b], 3, 0.25, 2).flatten(1))), (R(1, 8, 16, 16), torch.tensor([[2.0, 3, 30, 40], [10, 10, 50, 60]]))
    yield "deform_conv", lambda: Part(nn.ModuleList([nn.Conv2d(8, 18, 3, 1, 1), torchvision.ops.DeformConv2d(8, 8, 3, 1, 1)]), lambda m, x: m[1](x, m[0](x) * 0.1)), (R(1, 8, 12, 12),)
