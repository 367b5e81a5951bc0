"""Arrays in and out: DLPack, the buffer protocol, element types, without copies where the layout allows it."""

import array
import importlib
import logging
import os
import pathlib
import subprocess
import sys
import unittest

import anemone
import numpy as np

EXAMPLE = pathlib.Path(os.environ["ANE_EXAMPLE"])

# Runs a large layer twice and prints how many bytes the second run needs at its highest, beyond what there was before.
PEAK = """
import pathlib, sys, tempfile
import anemone, numpy as np

shape = (1, 64, 512, 512)
text = '''program(1.0)
{
 func main<ios16>(tensor<fp16, [1, 64, 512, 512]> x) {
  tensor<fp16, [1, 64, 512, 512]> y = relu(x = x)[name = string("y")];
 } -> (y);
}
'''
with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder) / "large.mil"
    file.write_text(text)
    program = anemone.load(file).compile("m1", threads=1)

class Other:
    def __init__(self, array):
        self.array = array
    def __dlpack__(self, **given):
        return self.array.__dlpack__(**given)
    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

def status(key):
    for line in open("/proc/self/status"):
        if line.startswith(key):
            return int(line.split()[1]) * 1024

x = np.full(shape, 0.5, sys.argv[1])
if sys.argv[2] == "transposed":
    x = np.full(shape[::-1], 0.5, sys.argv[1]).T
given = {"dlpack": Other, "buffer": memoryview}.get(sys.argv[2], lambda x: x)(x)
program.run(given)
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
y = program.run(given)["y"]
print(status("VmHWM") - before)
assert (y == 0.5).all()
"""


class Other:
    """Gives its elements by DLPack and has nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **given):
        return self.array.__dlpack__(**given)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Brain:
    """An array of bfloat16 in the manner of PyTorch."""

    dtype = "torch.bfloat16"

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **_):
        raise BufferError("numpy has no bfloat16")

    def float(self):
        return Other(self.array)


class Arrays(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = anemone.load(EXAMPLE / "digits.mlpackage").compile("m1")
        cls.image = np.load(EXAMPLE / "image.npy").astype(np.float16)
        (cls.wanted,) = cls.program.run(cls.image).values()

    def same(self, given):
        (got,) = self.program.run(given).values()
        np.testing.assert_array_equal(got, self.wanted)

    def test_objects_and_layouts(self):
        image = self.image
        for dtype in ("float16", "float32", "float64", ">f4", ">f2"):
            self.same(image.astype(dtype))
            self.same(Other(np.ascontiguousarray(image.astype(np.dtype(dtype).newbyteorder("=")))))
            self.same(np.asfortranarray(image.astype(dtype)))
        wide = np.zeros((*image.shape[:-1], 2 * image.shape[-1]), np.float16)
        wide[..., ::2] = image
        self.same(wide[..., ::2])
        self.same(np.lib.stride_tricks.as_strided(image, image.shape, image.strides, writeable=False))
        odd = bytearray(1 + image.nbytes)
        odd[1:] = image.tobytes()
        self.same(np.frombuffer(odd, np.float16, offset=1).reshape(image.shape))
        self.same(memoryview(image.astype(np.float32)))
        self.same(array.array("f", image.astype(np.float32).ravel()))
        self.same(image.tolist())

    def test_results_are_views_for_others(self):
        self.assertTrue(np.shares_memory(np.from_dlpack(self.wanted), self.wanted))
        self.assertTrue(np.shares_memory(np.asarray(memoryview(self.wanted)), self.wanted))

    def test_casts_are_noted_once(self):
        program = anemone.load(EXAMPLE / "digits.mlpackage").compile("m1")
        program.run(self.image)
        self.assertEqual(program.notes, [])
        with self.assertLogs("anemone", logging.INFO) as log:
            for _ in range(2):
                program.run(self.image.astype(np.float32))
                (got,) = program.run(Brain(self.image.astype(np.float32))).values()
        np.testing.assert_array_equal(got, self.wanted)
        self.assertEqual(len(program.notes), 2)
        self.assertEqual(log.records[0].getMessage(), program.notes[0])
        self.assertRegex(program.notes[0], "^input image: float32 is cast to float16")
        self.assertRegex(program.notes[1], "^input image: bfloat16 is cast to float16")

    def test_registered_types(self):
        try:
            types = importlib.import_module("ml_dtypes")
        except ImportError:
            self.skipTest("no ml_dtypes")
        self.same(self.image.astype(types.bfloat16))
        self.assertIn("bfloat16", "".join(self.program.notes))

    def test_torch(self):
        try:
            torch = importlib.import_module("torch")
        except ImportError:
            self.skipTest("no torch")
        tensor = torch.from_dlpack(self.image.copy())
        for dtype in (torch.float16, torch.float32, torch.float64):
            self.same(tensor.to(dtype))
        self.same(tensor.float().requires_grad_())
        self.same(tensor.float().permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0))
        self.program.run(tensor.bfloat16())
        np.testing.assert_array_equal(torch.from_dlpack(self.wanted).numpy(), self.wanted)

    def test_what_holds_no_numbers_is_refused_by_name(self):
        class Elsewhere(Other):
            def __dlpack_device__(self):
                return (2, 0)

            def __dlpack__(self, **_):
                raise BufferError("not in this memory")

        for wrong, found in [
            (self.image.astype(np.complex64), "complex64"),
            ("seven", "str"),
            (None, "NoneType"),
            (np.zeros(64, [("a", "f4")]), "ndarray"),
            (Elsewhere(self.image), "Elsewhere"),
        ]:
            with self.assertRaises(anemone.BadInput) as caught:
                self.program.run(image=wrong)
            self.assertIn("input image: numbers are expected", str(caught.exception))
            self.assertIn(found, str(caught.exception))
            self.assertEqual(caught.exception.code, "ANE2003")
        with self.assertRaisesRegex(anemone.BadInput, r"\[1, 1, 8, 8\].*\[1, 1, 8, 7\]"):
            self.program.run(self.image[..., :7])
        # A refused input costs the plan nothing.
        self.same(self.image)

    def test_nothing_is_copied_where_the_layout_allows_it(self):
        if not os.access("/proc/self/clear_refs", os.W_OK):
            self.skipTest("the system does not tell the highest use of memory")

        def peak(*given):
            done = subprocess.run([sys.executable, "-c", PEAK, *given], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            return int(done.stdout)

        elements = 64 * 512 * 512
        # The result in fp32, and half as much again for what the allocator and the threads hold.
        most = 4 * elements * 3 // 2
        for given in [("float32", "numpy"), ("float32", "dlpack"), ("float32", "buffer"), ("float16", "dlpack")]:
            self.assertLess(peak(*given), most, given)
        for given in [("float64", "numpy"), ("float32", "transposed")]:
            self.assertGreater(peak(*given), most, given)


if __name__ == "__main__":
    unittest.main()
