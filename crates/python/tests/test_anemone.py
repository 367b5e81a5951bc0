"""The package against its contract; `crates/python/tests/package.rs` runs it."""

import atexit
import contextlib
import doctest
import importlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import anemone
import numpy as np

EXAMPLE = pathlib.Path(os.environ["ANE_EXAMPLE"])
PACKAGE = EXAMPLE / "digits.mlpackage"

# A running sum: no unit of the engine does it; for the M1 this compiler makes it of others.
OFF = """program(1.0)
{
 func main<ios16>(tensor<fp16, [1, 4, 1, 8]> x) {
  int32 a = const()[name = string("a"), val = int32(3)];
  bool no = const()[name = string("no"), val = bool(false)];
  tensor<fp16, [1, 4, 1, 8]> y = cumsum(axis = a, exclusive = no, reverse = no, x = x)[name = string("y")];
 } -> (y);
}
"""


# A state to which each run adds its input.
ACCUMULATOR = """program(1.3)
{
 func main<ios18>(tensor<fp16, [1, 8]> x, state<tensor<fp16, [1, 8]>> total) {
  tensor<fp16, [1, 8]> before = read_state(input = total)[name = string("before")];
  tensor<fp16, [1, 8]> after = add(x = before, y = x)[name = string("after")];
  write_state(data = after, input = total)[name = string("keep")];
  tensor<fp16, [1, 8]> y = relu(x = after)[name = string("y")];
 } -> (y);
}
"""


def attention(q, k, v, scale):
    """Softmax of scaled scores times values; channels are positions, rows are heads."""
    q, k, v = (np.moveaxis(t.astype(np.float64), 2, 1) for t in (q, k, v))
    scores = q @ np.swapaxes(k, -1, -2) * scale
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.moveaxis(weights @ v, 1, 2)


class Functions(unittest.TestCase):
    def test_decode(self):
        package = EXAMPLE.parent / "decode" / "decoder.mlpackage"
        prefill, decode = (anemone.load(package, function=name).compile() for name in ("prefill", "decode"))
        self.assertEqual(anemone.load(package, function="prefill").function, "prefill")
        state = decode.make_state()
        self.assertEqual(sorted(state.names), ["keys", "values"])
        inputs = {"ids": np.arange(16, dtype=np.int32)[None], "position": np.zeros(1, np.int32)}
        outputs = prefill.run(inputs=inputs, state=state)
        self.assertEqual(list(outputs), ["logits"])
        left = state.read("keys")
        self.assertTrue(left[:, :, :16].any() and not left[:, :, 16:].any())
        decode.run(inputs={"ids": np.ones((1, 1), np.int32), "position": np.full(1, 16, np.int32)}, state=state)
        self.assertTrue(state.read("keys")[:, :, 16].any())
        np.testing.assert_array_equal(state.read("keys")[:, :, :16], left[:, :, :16])
        with self.assertRaises(anemone.BadInput):
            state.read("nothing")
        with self.assertRaises(anemone.BadInput):
            anemone.load(package, function="nothing")


class Models(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def test_check(self):
        report = anemone.load(PACKAGE).check("m1")
        self.assertTrue(report.ok)
        self.assertIn("m1", report.table())
        document = report.to_dict()
        self.assertEqual(document["schema"], "anemone.check/1")
        self.assertEqual([c["target"] for c in document["chips"]], ["h13"])
        self.assertIn("<iframe", report._repr_html_())
        self.assertEqual(len(anemone.load(str(PACKAGE)).check("m1, m4").to_dict()["chips"]), 2)
        self.assertEqual(report.failures, [])
        self.assertIn("Neural Engine", report.summary[0])
        self.assertLess(len(repr(report)), 400)
        self.assertEqual(len(report.operations), len(document["operations"]))
        several = anemone.load(PACKAGE).check(["a12", "iPhone13,2"])
        self.assertEqual([c["chip"] for c in several.to_dict()["chips"]], ["a12", "iphone-12 (a14)"])
        self.assertTrue(several.failures and several.failures[0]["fix"])
        with self.assertRaises(FileNotFoundError):
            anemone.load(self.folder / "nothing.mlpackage")

    def test_run(self):
        program = anemone.load(PACKAGE).compile("h13")
        (name, shape), = program.inputs.items()
        image = np.load(EXAMPLE / "image.npy")
        expected = np.load(EXAMPLE / "expected.npy")
        outputs = program.run(**{name: image})
        alone = program.run(image)
        self.assertEqual(list(alone), list(outputs))
        (result,) = outputs.values()
        self.assertEqual(result.dtype, np.float32)
        self.assertEqual(result.shape, tuple(program.outputs.values())[0])
        np.testing.assert_allclose(result, expected.reshape(result.shape), atol=4e-3 * np.abs(expected).max())
        # Other element types and memory orders hold the same numbers.
        again = program.run(**{name: np.asfortranarray(image.astype(np.float64))})
        np.testing.assert_array_equal(again[next(iter(outputs))], result)

    def test_saved_forms_run_and_are_explained(self):
        program = anemone.load(PACKAGE).compile("h13")
        inputs = {n: np.random.default_rng(1).uniform(-1, 1, s) for n, s in program.inputs.items()}
        paths = program.save(self.folder / "out", emit=["hwx", "e5"])
        self.assertEqual(sorted(pathlib.Path(p).name for p in paths), ["digits.e5", "digits.hwx"])
        (container,) = [p for p in paths if p.endswith(".hwx")]
        again = anemone.load(container).compile()
        for a, b in zip(program.run(**inputs).values(), again.run(**inputs).values()):
            np.testing.assert_array_equal(a.ravel(), b.ravel())
        self.assertIn("== header", anemone.dump(container))
        self.assertTrue("Kw = 3" in program.listing())

    def test_objects_of_coremltools(self):
        class Object:
            def get_spec(self):
                raise AssertionError("not needed")

            def save(self, path):
                shutil.copytree(PACKAGE, path)

        model = anemone.load(Object())
        self.assertTrue(model.check("m1").ok)
        self.assertTrue(model.compile("h13").outputs)
        with self.assertRaises(anemone.BadInput):
            anemone.load(17)

    def test_objects_are_no_files(self):
        class Spec:
            specificationVersion = 7

            def SerializeToString(self):
                return (PACKAGE / "Data/com.apple.CoreML/model.mlmodel").read_bytes()

        weights = PACKAGE / "Data/com.apple.CoreML/weights"
        model = anemone.load(Spec(), weights_dir=weights)
        report = model.check("m1")
        self.assertTrue(report.ok)
        self.assertNotIn("/", report.table().split("operations, ")[0].splitlines()[-1])
        self.assertEqual(repr(model), "<anemone.Model of an object>")
        image = np.load(EXAMPLE / "image.npy")
        wanted = anemone.load(PACKAGE).compile("m1").run(image)
        got = model.compile("m1").run(image)
        for name, array in wanted.items():
            np.testing.assert_array_equal(got[name], array)
        with self.assertRaises(FileNotFoundError):
            anemone.load(Spec(), weights_dir=self.folder / "nothing")
        with self.assertRaises(anemone.BadInput) as refused:
            anemone.load(Spec())
        self.assertIn("weights_dir", refused.exception.suggestion)

    def test_states(self):
        path = self.folder / "sum.mil"
        path.write_text(ACCUMULATOR)
        program = anemone.load(path).compile("m1")
        self.assertEqual((program.real_inputs, program.state_names), (["x"], ["total"]))
        state = program.make_state()
        for step in range(1, 4):
            outputs = program.run(np.ones((1, 8), np.float32), state=state)
            self.assertEqual(list(outputs), ["y"])
            np.testing.assert_array_equal(outputs["y"], np.full((1, 8), step, np.float32))
        np.testing.assert_array_equal(state.read("total"), np.full((1, 8), 3, np.float32))
        self.assertIn("total", repr(state))
        with self.assertRaises(anemone.BadInput):
            anemone.load(PACKAGE).compile("m1").run(np.load(EXAMPLE / "image.npy").astype(np.float32), state=state)
        with self.assertRaises(anemone.BadInput):
            anemone.load(PACKAGE).compile("m1").make_state()

    def test_assertion(self):
        anemone.assert_on_ane(PACKAGE, "m1")
        file = self.folder / "off.mil"
        file.write_text(OFF)
        with self.assertRaisesRegex(AssertionError, "cumsum"):
            anemone.assert_on_ane(file, "m4")
        self.assertFalse(anemone.load(file).check("m4").ok)

    def test_threads(self):
        program = anemone.load(PACKAGE).compile("h13")
        inputs = {n: np.ones(s) for n, s in program.inputs.items()}
        expected = program.run(**inputs)
        results = []
        threads = [threading.Thread(target=lambda: results.append(program.run(**inputs))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(results), 4)
        for result in results:
            for name, array in result.items():
                np.testing.assert_array_equal(array, expected[name])


# A convolution with the identity.
IDENTITY = """program(1.3)
{
 func main<ios18>(tensor<fp16, [1, 8, 2, 4]> x) {
  tensor<fp16, [8, 8, 1, 1]> w = const()[name = string("w"), val = tensor<fp16, [8, 8, 1, 1]>(WEIGHTS)];
  string p = const()[name = string("p"), val = string("valid")];
  tensor<int32, [2]> s = const()[name = string("s"), val = tensor<int32, [2]>([1, 1])];
  tensor<int32, [4]> z = const()[name = string("z"), val = tensor<int32, [4]>([0, 0, 0, 0])];
  int32 g = const()[name = string("g"), val = int32(1)];
  tensor<fp16, [1, 8, 2, 4]> y = conv(dilations = s, groups = g, pad = z, pad_type = p, strides = s, weight = w, x = x)[name = string("y")];
 } -> (y);
}
""".replace("WEIGHTS", str(np.eye(8).reshape(8, 8, 1, 1).tolist()))


class Connections(unittest.TestCase):
    """Models through the runtime: by a driver of this process, and by a broker that this package runs."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.image = np.load(EXAMPLE / "image.npy").astype(np.float32)

    def broker(self, *arguments):
        socket = self.folder / "aned.sock"
        command = [sys.executable, "-m", "anemone", "broker", "--socket", socket, "--cache", self.folder / "brokers", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (process.terminate(), process.wait()))
        until = time.monotonic() + 60
        while not socket.exists():
            self.assertLess(time.monotonic(), until, "the broker does not listen")
            time.sleep(0.02)
        return socket

    def test_in_process(self):
        model, cache = anemone.load(PACKAGE), self.folder / "cache"
        first, again = (model.connect("m1", cache=cache) for _ in range(2))
        self.assertEqual((first.cached, again.cached), (False, True))
        self.assertEqual(first.inputs, {"image": (1, 1, 8, 8)})
        wanted = model.compile("m1").run(self.image)
        np.testing.assert_array_equal(first.run(self.image)["probs"], wanted["probs"])
        np.testing.assert_array_equal(again.run(inputs={"image": self.image})["probs"], wanted["probs"])
        self.assertEqual(first.counters()["completed"], 1)
        # Callers on several threads get the outputs of their own inputs.
        images = [self.image * factor for factor in (0, 0.5, 1, 2)]
        expected = [model.compile("m1").run(image)["probs"] for image in images]
        results = [[] for _ in images]
        threads = [
            threading.Thread(target=lambda at: results[at].extend(first.run(images[at])["probs"] for _ in range(20)), args=(at,))
            for at in range(len(images))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for all, wanted in zip(results, expected):
            self.assertEqual(len(all), 20)
            for got in all:
                np.testing.assert_array_equal(got, wanted)
        for arguments in [{"via": "nothing"}, {"quirk": ["nothing"]}, {"streams": 0}, {"qos": 9}]:
            with self.assertRaises(anemone.BadInput):
                model.connect("m1", cache=cache, **arguments)
        with self.assertRaises(anemone.BadInput):
            first.run(picture=self.image)
        with self.assertRaises(anemone.BadInput):
            first.run(self.image[..., :4])

    def test_the_defect_of_overlapped_streams(self):
        model, cache = anemone.load(PACKAGE), self.folder / "cache"
        self.assertIn("probs", model.connect("m1", cache=cache, streams=2).run(self.image))
        with self.assertRaisesRegex(anemone.Error, "stream 2 of 2"):
            model.connect("m1", cache=cache, streams=2, quirk=["overlapped-streams"]).run(self.image)

    def test_states_stay_on_the_device(self):
        path = self.folder / "sum.mil"
        path.write_text(ACCUMULATOR)
        connection = anemone.load(path).connect("m1", cache=self.folder / "cache")
        self.assertEqual(connection.state_names, ["total"])
        for step in range(1, 4):
            outputs = connection.run(np.ones((1, 8), np.float32))
            self.assertEqual(list(outputs), ["y"])
            np.testing.assert_array_equal(outputs["y"], np.full((1, 8), step, np.float32))
        np.testing.assert_array_equal(connection.state("total"), np.full((1, 8), 3, np.float32))
        with self.assertRaises(anemone.BadInput):
            connection.state("nothing")

    def test_adapters(self):
        path = self.folder / "identity.mil"
        path.write_text(IDENTITY)
        x = np.arange(64, dtype=np.float32).reshape(1, 8, 2, 4)
        model, cache = anemone.load(path), self.folder / "cache"
        weights = {"td0": 3 * np.eye(8, dtype=np.float32).reshape(8, 8, 1, 1)}
        np.savez(self.folder / "adapter.npz", **weights)
        for adapter, factor in [(None, 1), (weights, 3), (self.folder / "adapter.npz", 3)]:
            got = model.connect("m1", cache=cache, adapter=adapter).run(x)["y"]
            np.testing.assert_array_equal(got, factor * x)
        with self.assertRaises(anemone.Error):
            model.connect("m1", cache=cache, adapter={"td9": weights["td0"]})

    def test_through_a_broker(self):
        socket = self.broker()
        model = anemone.load(PACKAGE)
        wanted = model.compile("m1").run(self.image)["probs"]
        for via in ["broker", "direct"]:
            connection = model.connect("m1", via=via, socket=socket, qos=33, depth=2, wired=True)
            np.testing.assert_array_equal(connection.run(self.image)["probs"], wanted)
        stat = connection.counters()
        self.assertEqual((stat["compiles"], stat["completed"]), (1, 2))
        broker = anemone.Broker(socket)
        self.assertEqual(broker.method("SetThrottlingPercentage", 50), 0)
        self.assertTrue(any("control" in line for line in broker.method("GetClientsInfo")))
        self.assertEqual(broker.stat()["throttling_percent"], 50)
        with self.assertRaisesRegex(anemone.Error, "modelPurgeInAllPartitions"):
            broker.purge()
        with self.assertRaisesRegex(anemone.Error, "aggressivePowerSaving"):
            model.connect("m1", via="broker", socket=socket, power_saving=True)
        with self.assertRaises(anemone.Error):
            anemone.Broker(self.folder / "nothing.sock")


class Graphs(unittest.TestCase):
    SHAPE = (1, 12, 2, 16)

    def graph(self, **params):
        graph = anemone.Graph("attention")
        q, k, v = (graph.input(n, self.SHAPE) for n in "qkv")
        scale = graph.constant("scale", 0.25)
        graph.output(graph.native("SDPA", [q, k, v, scale], name="y", **params))
        return graph

    def test_attention(self):
        random = np.random.default_rng(3)
        q, k, v = (random.uniform(-1, 1, self.SHAPE).astype(np.float16) for _ in range(3))
        program = self.graph(SubtractMax=True).compile("h13")
        y = program.run(q=q, k=k, v=v)["y"]
        np.testing.assert_allclose(y, attention(q, k, v, 0.25), atol=4e-3)

    def test_segments(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        graph = anemone.Graph("../two")
        x = graph.input("x", (1, 2, 1, 20))
        top = graph.native("TopK", [x], Type="Max", K=5, SortDimension="Width")
        self.assertEqual(top.shape, (1, 2, 1, 5))
        graph.output(graph.native("Tile", [top], TileHeight=2))
        program = graph.compile("m1")
        paths = [pathlib.Path(p).name for p in program.save(folder, emit=["e5", "hwx"])]
        self.assertEqual(paths, ["_two.e5", "_two_0.hwx", "_two_1.hwx"])
        data = np.random.default_rng(5).uniform(-1, 1, (1, 2, 1, 20)).astype(np.float16)
        (result,) = program.run(x=data).values()
        # All channels in the order of the first.
        order = np.argsort(-data[:, :1], axis=-1)[..., :5]
        best = np.take_along_axis(data, np.repeat(order, 2, axis=1), axis=-1)
        np.testing.assert_array_equal(result, np.repeat(best, 2, axis=2))

    def test_parameters_by_axis(self):
        graph = anemone.Graph()
        x = graph.input("x", (1, 3, 4, 20))
        start = graph.constant("start", 7.0)
        graph.output(
            graph.native(
                "DynamicSlice",
                [x, start],
                DynamicSliceAxisOrder=["Width"],
                DynamicSliceInfo=[{"Coordinate": "Width", "SliceSize": 6}],
                CoordinateInfo=[{"Coordinate": "Width", "CoordinateMode": "NonNormalized"}],
                PaddingInfo=[{"Coordinate": "Width", "PaddingMode": "Background"}],
            )
        )
        data = np.arange(240, dtype=np.float32).reshape(1, 3, 4, 20)
        (result,) = graph.compile("m2").run(x=data).values()
        np.testing.assert_array_equal(result, data[..., 7:13])

    def test_refusals(self):
        with self.assertRaises(anemone.BadInput) as caught:
            self.graph(SubtractMx=True)
        self.assertIn("InvalidParamSyntax", str(caught.exception))
        self.assertIn("SubtractMax", str(caught.exception))
        self.assertEqual(caught.exception.op, "SDPA")
        with self.assertRaises(anemone.BadInput):
            self.graph(SubtractMax=[[[[[1]]]]])
        with self.assertRaises(anemone.BadInput) as caught:
            anemone.Graph().native("SDPAA", [])
        self.assertIn("SDPA", caught.exception.suggestion)
        one, other = anemone.Graph(), anemone.Graph()
        with self.assertRaisesRegex(anemone.BadInput, "another graph"):
            other.native("Flatten", [one.input("x", (1, 2, 3, 4))])
        with self.assertRaises(anemone.BadInput):
            one.input("z", (1, 2, 3))
        with self.assertRaises(anemone.BadInput):
            one.compile()

    def test_refusal_of_a_chip(self):
        graph = anemone.Graph()
        x = graph.input("x", (1, 4, 1, 40))
        graph.output(graph.native("Sort", [x], name="sorted", Direction="Ascending", SortDimension="Width"))
        with self.assertRaises(anemone.Refused) as caught:
            graph.compile("h13")
        error = caught.exception
        self.assertEqual((error.code, error.output, error.chip), ("ANE1002", "sorted", "h13"))
        self.assertTrue(error.op and error.found)
        self.assertIsInstance(error, anemone.Error)
        with self.assertRaises(anemone.BadInput) as caught:
            graph.compile("z80")
        self.assertEqual(caught.exception.code, "ANE2004")
        self.assertTrue(caught.exception.suggestion)

    def test_inputs_are_held_to_their_extents(self):
        program = self.graph(SubtractMax=True).compile("h13")
        good = np.zeros(self.SHAPE, np.float32)
        for wrong in ({}, {"q": good, "k": good}, {"q": good, "k": good, "v": good[..., :3]}):
            with self.assertRaises(anemone.BadInput):
                program.run(**wrong)
        with self.assertRaisesRegex(anemone.BadInput, "no input w"):
            program.run(q=good, k=good, v=good, w=good)

    def test_inputs_are_held_to_their_types(self):
        def field(number, *parts):
            body = b"".join(part if isinstance(part, bytes) else part.encode() for part in parts)
            return bytes([number << 3 | 2, len(body)]) + body

        def number(field_number, value):
            return bytes([field_number << 3, value])

        # y = x + x of two int8 numbers, as ONNX: element type 3.
        def port(at, name):
            extent = field(2, field(1, number(1, 2)))
            return field(at, field(1, name), field(2, field(1, number(1, 3), extent)))

        node = field(1, field(1, "x"), field(1, "x"), field(2, "y"), field(4, "Add"))
        graph = field(7, node, field(2, "sum"), port(11, "x"), port(12, "y"))
        model = number(1, 8) + graph + field(8, number(2, 17))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "bytes.onnx"
            path.write_bytes(model)
            program = anemone.load(path).compile("m1")
        self.assertEqual(program.run(x=np.array([100, -100], np.float32))["y"].tolist(), [-56, 56])
        for wrong in ([300, 0], [1.5, 0], [float("nan"), 0]):
            with self.assertRaisesRegex(anemone.BadInput, "input x is i8"):
                program.run(x=np.array(wrong, np.float32))


class Documents(unittest.TestCase):
    """Examples of the pages run as they stand, on the digits and a state that adds up its inputs."""

    PAGES = ["crates/python/README.md", "docs/python.md"]

    def test_examples(self):
        root = EXAMPLE.parent.parent
        names = {"image": np.load(EXAMPLE / "image.npy"), "tokens": [np.ones((1, 8), np.float32)] * 3}
        before, count = os.getcwd(), 0
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                shutil.copytree(PACKAGE, "model.mlpackage")
                shutil.copytree(PACKAGE, "models/digits.mlpackage")
                shutil.copytree(PACKAGE, "other.mlpackage")
                pathlib.Path("decoder.mil").write_text(ACCUMULATOR)
                for page in self.PAGES:
                    for fence in (root / page).read_text().split("```python\n")[1:]:
                        with self.subTest(page=page, example=count), contextlib.redirect_stdout(io.StringIO()):
                            exec(compile(fence.split("```")[0], page, "exec"), names)  # noqa: S102
                        count += 1
                self.assertEqual(names["outputs"]["y"].tolist(), [[3.0] * 8], "three tokens are added up")
            finally:
                os.chdir(before)
        self.assertGreaterEqual(count, 5)


def load_tests(_loader, tests, _pattern):
    """The examples of the docstrings too; their files are those of the digits."""
    before = os.getcwd()
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    settings = {
        "extraglobs": {"anemone": anemone, "np": np, "folder": folder},
        "setUp": lambda _: os.chdir(EXAMPLE),
        "tearDown": lambda _: os.chdir(before),
    }
    modules = [importlib.import_module(f"anemone{name}") for name in ("", "._anemone", "._evaluate", "._sweep", ".testing")]
    found = [doctest.DocTestSuite(module, **settings) for module in modules]
    # Classes of the native module count as the package's own, functions as its own.
    if sum(suite.countTestCases() for suite in found) < 9:
        raise AssertionError("docstrings are missing")
    tests.addTests(found)
    return tests


if __name__ == "__main__":
    unittest.main()
