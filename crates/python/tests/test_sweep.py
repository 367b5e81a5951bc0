"""Objects that travel, sweeps and evaluation; `scripts/python_package.py` runs it where joblib and Dask are installed."""

import json
import math
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import anemone
import numpy as np
from anemone import _backends, _evaluate, _sweep, _travel

EXAMPLE = pathlib.Path(os.environ["ANE_EXAMPLE"])
PACKAGE = EXAMPLE / "digits.mlpackage"
ROWS = {"key", "model", "action", "chip", "options", "ok", "seconds"}


def rebuilt_after(payloads):
    """Number of programs that a process has rebuilt after unpickling all of them, and of distinct objects."""
    programs = [pickle.loads(p) for p in payloads]
    return _travel.rebuilt, len({id(p) for p in programs})


def kill_self(task):
    """A worker that dies where the task says so."""
    if task == "die":
        os._exit(9)
    return task


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.copy = self.folder / "model.mlpackage"
        shutil.copytree(PACKAGE, self.copy)


class Travel(Folder):
    def test_a_model_travels_as_its_place(self):
        model = anemone.load(self.copy)
        data = pickle.dumps(model)
        self.assertLess(len(data), 1000)
        self.assertEqual(pickle.loads(data).digest, model.digest)
        (self.copy / "Manifest.json").write_text("{}")
        _travel._models.clear()
        with self.assertRaisesRegex(FileNotFoundError, "portable=True"):
            pickle.loads(data)

    def test_a_portable_model_travels_with_its_bytes(self):
        os.environ["ANEMONE_OBJECTS"] = str(self.folder / "objects")
        self.addCleanup(os.environ.pop, "ANEMONE_OBJECTS")
        data = pickle.dumps(anemone.load(self.copy, portable=True))
        self.assertGreater(len(data), 1000)
        shutil.rmtree(self.copy)
        _travel._models.clear()
        again = pickle.loads(data)
        self.assertTrue(again.check("m1").ok)
        self.assertTrue(pathlib.Path(again.path).is_relative_to(self.folder / "objects"))

    def test_a_program_is_rebuilt_once_and_gives_the_same_bits(self):
        program = anemone.load(self.copy).compile("m1")
        image = np.load(EXAMPLE / "image.npy")
        payload = pickle.dumps(program)
        _travel._programs.clear()
        before = _travel.rebuilt
        again = [pickle.loads(payload) for _ in range(5)]
        self.assertEqual((_travel.rebuilt - before, len(set(map(id, again)))), (1, 1))
        for a, b in zip(program.run(image).values(), again[0].run(image).values()):
            np.testing.assert_array_equal(a, b)

    def test_a_report_travels(self):
        report = anemone.load(self.copy).check(["m1", "m4"])
        self.assertEqual(pickle.loads(pickle.dumps(report)).to_dict(), report.to_dict())

    def test_processes_that_share_a_cache_agree(self):
        payload = pickle.dumps(anemone.load(self.copy, portable=True))
        objects = self.folder / "objects"
        (self.folder / "payload").write_bytes(payload)
        shutil.rmtree(self.copy)
        code = f"import pickle; print(pickle.load(open({str(self.folder / 'payload')!r}, 'rb')).digest)"
        environment = {**os.environ, "ANEMONE_OBJECTS": str(objects)}
        started = [subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) for _ in range(4)]
        digests = {p.communicate()[0] for p in started}
        self.assertEqual((len(digests), [p.returncode for p in started]), (1, [0] * 4))
        self.assertEqual(len(list(objects.iterdir())), 1)


class Sweeps(Folder):
    def rows(self, **changed):
        given = {"chips": ["m1", "a12"], "actions": ["check", "compile", "run"], "backend": "serial", "ordered": True}
        return anemone.sweep(self.copy, **{**given, **changed}).rows

    def test_rows(self):
        rows = self.rows()
        self.assertEqual([(r["action"], r["chip"]) for r in rows][:2], [("check", "m1"), ("check", "a12")])
        self.assertTrue(all(ROWS <= set(r) for r in rows), rows)
        self.assertTrue(rows[0]["ok"])
        compiled = next(r for r in rows if r["action"] == "compile" and r["chip"] == "m1")
        self.assertGreater(compiled["tasks"], 0)
        ran = next(r for r in rows if r["action"] == "run" and r["chip"] == "m1")
        self.assertLess(ran["max_abs"], 0.1)
        # A chip whose words are not known is a row with its code.
        refused = next(r for r in rows if r["action"] == "compile" and r["chip"] == "a12")
        self.assertFalse(refused["ok"])
        self.assertTrue(refused["code"].startswith("ANE"), refused)

    def test_engines_give_the_same_rows(self):
        plain = [{k: v for k, v in row.items() if k != "seconds"} for row in self.rows()]
        engines = ["joblib", "dask"] + (["ray"] if os.environ.get("ANE_TEST_RAY") else [])
        for engine in engines:
            rows = self.rows(backend=engine, workers=2)
            self.assertEqual([{k: v for k, v in row.items() if k != "seconds"} for row in rows], plain, engine)

    def test_what_joblib_lacks_is_named(self):
        code = (
            "import anemone, sys\n"
            "try: anemone.sweep(sys.argv[1], backend='joblib', workers=2).rows\n"
            "except OSError as error: print(error)\n"
        )
        script = 'mount -t tmpfs -o ro none /dev/shm && exec "$@" || exit 77'
        ran = subprocess.run(
            ["unshare", "-r", "-m", "sh", "-c", script, "sh", sys.executable, "-W", "ignore", "-c", code, PACKAGE],
            capture_output=True, text=True, timeout=60,
        )
        if ran.returncode:
            self.skipTest("nothing can be mounted here (unshare -r -m)")
        self.assertIn('/dev/shm; backend="serial" needs none', ran.stdout)

    def test_a_program_that_was_scattered_is_rebuilt_once_in_each_worker(self):
        from distributed import Client

        program = anemone.load(PACKAGE).compile("m1")
        image = np.load(EXAMPLE / "image.npy")
        with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
            held = client.scatter(program, broadcast=True)
            runs = [client.submit(lambda p, x: p.run(x), held, image, pure=False) for _ in range(8)]
            for outputs in client.gather(runs):
                np.testing.assert_array_equal(outputs["probs"], program.run(image)["probs"])

            def rebuilt():
                from anemone import _travel

                return _travel.rebuilt

            self.assertEqual(sorted(client.run(rebuilt).values()), [1, 1])

    def test_a_client_that_closes_ends_a_sweep_with_its_rows_kept(self):
        from distributed import Client

        file = self.folder / "rows.jsonl"
        client = Client(n_workers=1, threads_per_worker=1, dashboard_address=None)
        chips = ["m1", "m1-pro", "m1-max", "m1-ultra", "m2", "m3", "m4"]
        rows = iter(anemone.sweep(PACKAGE, chips=chips, backend=client, file=file))
        next(rows)
        client.close()
        with self.assertRaisesRegex(RuntimeError, "client"):
            list(rows)
        kept = len(file.read_text().splitlines())
        self.assertGreaterEqual(kept, 1)
        again = anemone.sweep(PACKAGE, chips=chips, backend="serial", file=file).rows
        self.assertEqual(len(again), len(chips))
        self.assertTrue(all(row["ok"] for row in again))

    def test_a_dead_worker_costs_its_own_task_alone(self):
        tasks = list(enumerate(["a", "die", "b", "c", "d"]))
        done = dict(_backends.Joblib(workers=2).map(kill_self, tasks))
        self.assertIsInstance(done.pop(1), _backends.WorkerDied)
        self.assertEqual(done, {0: "a", 2: "b", 3: "c", 4: "d"})

    def test_another_content_is_another_row(self):
        before = self.rows(actions="check")
        (self.copy / "note.txt").write_text("changed")
        self.assertFalse({r["key"] for r in before} & {r["key"] for r in self.rows(actions="check")})

    def test_cosine_of_nothing(self):
        from anemone.metrics import cosine

        self.assertEqual([cosine([0, 0], [0, 0]), cosine([0, 0], [1, 0]), cosine([2, 0], [1, 0])], [1.0, 0.0, 1.0])

    def test_a_sweep_goes_on_from_its_file(self):
        file = self.folder / "rows.jsonl"
        whole = self.rows(file=file)
        lines = file.read_bytes().splitlines(keepends=True)
        # As after a kill: two rows, and half of a third.
        file.write_bytes(b"".join(lines[:2]) + lines[2][:20])
        sweep = anemone.sweep(
            self.copy, chips=["m1", "a12"], actions=["check", "compile", "run"], backend="serial", file=file, ordered=True
        )
        done = []
        work = _sweep.work
        self.addCleanup(setattr, _sweep, "work", work)
        _sweep.work = lambda task: done.append(task) or work(task)
        self.assertEqual([r["key"] for r in sweep], [r["key"] for r in whole])
        self.assertEqual(len(done), len(whole) - 2)
        self.assertEqual(len(file.read_bytes().splitlines()), len(whole))

    def test_a_dead_workers_row_is_computed_again(self):
        file = self.folder / "rows.jsonl"
        whole = self.rows(file=file)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        lines[1] = {**lines[1], "ok": False, "code": "WorkerDied", "error": "killed"}
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        again = self.rows(file=file)
        self.assertEqual([r["key"] for r in again], [r["key"] for r in whole])
        self.assertEqual([r.get("code") for r in again], [r.get("code") for r in whole])
        self.assertEqual(len(file.read_text().splitlines()), len(whole))

    def test_two_sweeps_do_not_write_one_file(self):
        file = self.folder / "rows.jsonl"
        first = iter(anemone.sweep(self.copy, chips=["m1", "m2"], backend="serial", file=file))
        next(first)
        with self.assertRaisesRegex(RuntimeError, "another sweep"):
            next(iter(anemone.sweep(self.copy, backend="serial", file=file)))
        first.close()
        self.assertTrue(anemone.sweep(self.copy, backend="serial", file=file).rows)

    def test_a_full_disk_keeps_the_rows_so_far(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        journal = _sweep.Journal(self.folder / "rows.jsonl")
        self.addCleanup(journal._give)
        journal.add({"key": "a"})
        kept, journal.stream = journal.stream, open("/dev/full", "wb", buffering=0)
        with self.assertRaises(OSError):
            journal.add({"key": "b"})
        journal.stream.close()
        journal.stream = kept
        journal.close()
        self.assertEqual((self.folder / "rows.jsonl").read_text(), '{"key": "a"}\n')

    def test_bad_arguments_are_named(self):
        for changed, text in [
            ({"actions": ["fly"]}, "fly"), ({"options": {"speed": 1}}, "speed"), ({"metrics": ["taste"]}, "taste"),
            ({"backend": "cray"}, "cray"), ({"actions": "evaluate"}, "data="),
        ]:
            with self.assertRaisesRegex(ValueError, text):
                self.rows(**changed)
        with self.assertRaisesRegex(FileNotFoundError, "no model"):
            (self.folder / "empty").mkdir()
            anemone.sweep(self.folder / "empty")

    def test_a_time_limit_is_a_row(self):
        row = self.rows(actions="run", chips="m1", time_limit=1e-9)[0]
        self.assertEqual((row["ok"], row["code"]), (False, "TimeoutError"))

    def test_the_command(self):
        spec = self.folder / "spec.toml"
        spec.write_text(f'models = ["{self.copy}"]\nchips = ["m1"]\nactions = ["check"]\nbackend = "serial"\n')
        ran = subprocess.run([sys.executable, "-m", "anemone", "sweep", str(spec)], capture_output=True, text=True)
        self.assertEqual((ran.returncode, json.loads(ran.stdout)["ok"]), (0, True), ran.stderr)
        spec.write_text("chips = 3\n")
        ran = subprocess.run([sys.executable, "-m", "anemone", "sweep", str(spec)], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 2)
        self.assertIn("models is missing", ran.stderr)
        ran = subprocess.run([sys.executable, "-m", "anemone", "targets", "m1"], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0)
        self.assertIn("h13", ran.stdout)


class Evaluations(Folder):
    def setUp(self):
        super().setUp()
        images, labels = np.load(EXAMPLE / "test_images.npy")[:40], np.load(EXAMPLE / "test_labels.npy")[:40]
        self.dataset = list(zip(images, labels))

    def test_beside_a_reference(self):
        model = anemone.load(PACKAGE)
        result = anemone.evaluate(model, self.dataset, "top1", reference=lambda **x: model.evaluate(x))
        self.assertEqual((result.program.n, result.errors), (40, []))
        self.assertGreater(result.program.mean, 0.8)
        self.assertTrue(result.program.low < result.program.mean <= result.program.high)
        self.assertAlmostEqual(result.program.mean, result.reference.mean, delta=0.1)

    def test_samples_along_an_axis_are_cut(self):
        images, labels = zip(*self.dataset)
        whole = anemone.evaluate(PACKAGE, [(np.stack(images), np.array(labels))])
        self.assertEqual(whole.values, anemone.evaluate(PACKAGE, self.dataset).values)

    def test_a_sample_that_raises_is_an_error_and_the_others_go_on(self):
        class Set:
            def __len__(self):
                return 4

            def __getitem__(own, at):
                if at == 1:
                    raise OSError("no such picture")
                return self.dataset[at] if at != 2 else (np.zeros(3), 1)

        result = anemone.evaluate(PACKAGE, Set())
        self.assertEqual(result.program.n, 2)
        self.assertIn("no such picture", result.errors[0])
        self.assertIn("expected", result.errors[1])

    def test_intervals(self):
        score = _evaluate.interval([1.0] * 9 + [0.0])
        self.assertTrue(0.55 < score.low < 0.9 < score.high < 0.99, score)
        self.assertTrue(math.isnan(_evaluate.interval([]).mean))
        score = _evaluate.interval([1.0, 2.0, 3.0])
        self.assertAlmostEqual(score.high - score.mean, 1.96 / math.sqrt(3), places=2)

    def test_in_a_sweep(self):
        options = [{"numerics": n, "metric": "top1"} for n in ("fast", "exact")]
        rows = anemone.sweep(PACKAGE, actions="evaluate", options=options, data=self.dataset, backend="serial").rows
        self.assertEqual([(r["n"], r["ok"]) for r in rows], [(40, True)] * 2)


class Runs(unittest.TestCase):
    def test_threads_share_a_program_and_memory_stays(self):
        import resource

        program = anemone.load(PACKAGE).compile("m1", threads=1)
        image = np.load(EXAMPLE / "image.npy")
        expected = {n: a.tobytes() for n, a in program.run(image).items()}
        wrong, runs = [], int(os.environ.get("ANE_TEST_RUNS", "2000"))

        def work(count):
            for _ in range(count):
                if {n: a.tobytes() for n, a in program.run(image).items()} != expected:
                    wrong.append(1)

        def together(count):
            threads = [threading.Thread(target=work, args=(count // 8,)) for _ in range(8)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        first = together(runs // 4)
        last = together(runs)
        self.assertFalse(wrong)
        self.assertLess(last, 1.02 * first)

    def test_threads_give_the_same_bits(self):
        program = anemone.load(PACKAGE).compile("m1")
        image = np.load(EXAMPLE / "image.npy")
        one, two = program.run(image, threads=1, numerics="exact"), program.run(image, threads=2, numerics="exact")
        for name in one:
            np.testing.assert_array_equal(one[name], two[name])

    def test_an_interrupt_ends_a_run(self):
        code = (
            "import anemone, numpy as np, os, signal, sys, threading, time\n"
            # A parent without job control, such as a script's background command, ignores the signal for its children.
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "p = anemone.load(sys.argv[1]).compile('m1'); x = np.load(sys.argv[2])\n"
            "threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
            "try:\n"
            "    while True: p.run(x)\n"
            "except KeyboardInterrupt: print('interrupted')\n"
        )
        ran = subprocess.run(
            [sys.executable, "-c", code, PACKAGE, EXAMPLE / "image.npy"], capture_output=True, text=True, timeout=20
        )
        self.assertIn("interrupted", ran.stdout, ran.stderr)

    def test_arrays_of_other_libraries(self):
        program = anemone.load(PACKAGE).compile("m1")
        image = np.load(EXAMPLE / "image.npy").astype(np.float32)
        expected = next(iter(program.run(image).values()))

        class Capsule:
            __dlpack__ = image.__dlpack__
            __dlpack_device__ = image.__dlpack_device__

        for given in (image, memoryview(image), Capsule(), image.astype(np.float16).astype(np.float64)):
            np.testing.assert_array_equal(next(iter(program.run(given).values())), expected)
        np.testing.assert_array_equal(np.from_dlpack(expected), expected)

    def test_the_import_is_short(self):
        code = "import time; t = time.perf_counter(); import anemone; print(time.perf_counter() - t)"
        times = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
        self.assertLess(min(times), 0.1)
        loaded = "import anemone, sys; print(sorted({'numpy', 'joblib', 'distributed'} & set(sys.modules)))"
        self.assertEqual(subprocess.check_output([sys.executable, "-c", loaded], text=True).strip(), "[]")


if __name__ == "__main__":
    warnings.simplefilter("error", ResourceWarning)
    unittest.main()
