"""Sweeps over models, chips, actions and options, run by joblib, Dask, Ray or this process."""

import argparse
import glob
import hashlib
import itertools
import json
import os
import pathlib
import sys
import threading
import time

from . import _anemone
from ._backends import WorkerDied, chosen
from ._travel import content_hash
from .metrics import named

ACTIONS = ("check", "compile", "run", "evaluate")
#: Options of a row, each with the actions that read it.
OPTIONS = {
    "dim": ACTIONS,
    "route": ("check",),
    "numerics": ("run", "evaluate"),
    "threads": ("run", "evaluate"),
    "seed": ("run",),
    "metric": ("evaluate",),
    "limit": ("evaluate",),
}


def sweep(
    models, *, chips=("m1",), actions=("check",), options=None, data=None, metrics=("max_abs",), backend="joblib",
    workers=None, file=None, ordered=False, time_limit=None, progress=None,
):
    """Checks, compiles, runs or evaluates models for chips; an iterator of rows (dictionaries).

    ``models``: paths, folders of models, patterns, or ``Model`` objects. ``options``: a dictionary or a list of them, each a
    variant (``dim``, ``route``, ``numerics``, ``threads``, ``seed``; for evaluation ``metric``, ``limit``). ``data``: for
    ``run`` inputs by name (an ``.npz`` or a dictionary; random where absent), the expected outputs being the evaluator's;
    for ``evaluate`` the data set. ``backend``: ``joblib``, ``dask``, ``ray``, ``serial``, or a client of Dask. ``file``:
    JSON lines; a sweep that ended early goes on where it was. ``ordered``: rows in the order of the tasks. ``time_limit``:
    seconds for one row. An error is a row with ``ok`` false, its code and its text. Raises ``ValueError`` for unknown actions,
    options and metrics, ``RuntimeError`` where another sweep writes the file, ``ImportError`` where an engine is not installed.

    >>> for row in anemone.sweep("digits.mlpackage", chips=["m1", "m4"], backend="serial"):
    ...     print(row["chip"], row["action"], row["ok"])
    m1 check True
    m4 check True
    """
    return Sweep(
        models, chips=chips, actions=actions, options=options, data=data, metrics=metrics, backend=backend,
        workers=workers, file=file, ordered=ordered, time_limit=time_limit, progress=progress,
    )


class Sweep:
    """The rows of :func:`sweep`, computed as they are asked for, once."""

    def __init__(
        self, models, *, chips, actions, options, data, metrics, backend, workers, file, ordered, time_limit, progress
    ):
        actions = [actions] if isinstance(actions, str) else list(actions)
        chips = [chips] if isinstance(chips, str) else list(chips)
        for action in actions:
            if action not in ACTIONS:
                raise ValueError(f"no action is called {action!r}; known: {', '.join(ACTIONS)}")
        variants = [options or {}] if options is None or isinstance(options, dict) else list(options)
        for key in itertools.chain.from_iterable(variants):
            if key not in OPTIONS:
                raise ValueError(f"no option is called {key!r}; known: {', '.join(OPTIONS)}")
        metrics = [metrics] if isinstance(metrics, str) or callable(metrics) else list(metrics)
        for metric in metrics:
            named(metric)
        if "evaluate" in actions and data is None:
            raise ValueError("evaluate needs data=: an iterable of (inputs, target)")
        self.tasks = []
        models = found(models)
        digests = {identity(model): digest_of(model) for model in models}
        for model, action, variant in itertools.product(models, actions, variants):
            kept = {k: v for k, v in variant.items() if action in OPTIONS[k]}
            for chip in chips:
                task = {
                    "model": model, "digest": digests[identity(model)], "action": action, "chip": chip, "options": kept,
                    "time_limit": time_limit,
                }
                if action in ("run", "evaluate"):
                    task.update(data=data, metrics=metrics)
                if all(key_of(t) != key_of(task) for t in self.tasks[-len(chips) * len(variants):]):
                    self.tasks.append(task)
        self.backend, self.workers = backend, workers
        self.file = pathlib.Path(file) if file is not None else None
        self.ordered, self.progress = ordered, progress
        self._rows = None

    def __len__(self):
        return len(self.tasks)

    def __iter__(self):
        if self._rows is not None:
            yield from self._rows
            return
        rows = []
        for row in self._computed():
            rows.append(row)
            yield row
        self._rows = rows

    @property
    def rows(self):
        """All rows; computed now unless they were."""
        return list(self)

    def to_pandas(self):
        """All rows as a data frame."""
        import pandas

        return pandas.DataFrame(self.rows)

    def to_parquet(self, path):
        """All rows as a Parquet file."""
        self.to_pandas().to_parquet(path)

    def to_jsonl(self, path):
        """All rows as JSON lines."""
        text = "".join(json.dumps(row, sort_keys=True, default=str) + "\n" for row in self.rows)
        pathlib.Path(path).write_text(text, encoding="utf-8")

    def _computed(self):
        kept, journal = {}, None
        if self.file is not None:
            journal = Journal(self.file)
            kept = journal.kept
        try:
            left = [(n, t) for n, t in enumerate(self.tasks) if key_of(t) not in kept]
            have = [(n, kept[key_of(t)]) for n, t in enumerate(self.tasks) if key_of(t) in kept]
            meter = Meter(len(self.tasks), len(have), self.progress)
            waiting, following = dict(have), 0
            if not self.ordered:
                yield from (row for _, row in have)
            for number, row in self._run(left):
                if isinstance(row, WorkerDied):
                    row = failed(self.tasks[number], row)
                row = {k: row[k] for k in sorted(row)}
                if journal is not None:
                    journal.add(row)
                meter.step()
                if not self.ordered:
                    yield row
                    continue
                waiting[number] = row
                while following in waiting:
                    yield waiting.pop(following)
                    following += 1
            if self.ordered:
                yield from (waiting[n] for n in sorted(waiting))
            meter.close()
        finally:
            if journal is not None:
                journal.close()

    def _run(self, left):
        return chosen(self.backend, self.workers).map(work, left) if left else iter(())


def found(models):
    """Models to sweep: objects as they are; folders and patterns give the models within."""
    endings = (".mlpackage", ".onnx", ".mil", ".plist", ".hwx", ".mlmodelc", ".mlmodel")
    models = [models] if isinstance(models, (str, os.PathLike, _anemone.Model)) else list(models)
    all_found = []
    for model in models:
        if isinstance(model, _anemone.Model):
            all_found.append(model)
            continue
        path = pathlib.Path(model)
        if path.is_dir() and path.suffix not in endings:
            within = sorted(p for p in path.iterdir() if p.suffix in endings)
        elif not path.exists() and any(c in str(path) for c in "*?["):
            within = sorted(glob.glob(str(path)))
        else:
            within = [path]
        if not within:
            raise FileNotFoundError(f"{model}: no model ({', '.join(endings)})")
        all_found += [str(p) for p in within]
    return all_found


def identity(model):
    """Path of a model, as rows name it."""
    return model.path if isinstance(model, _anemone.Model) else str(model)


def digest_of(model):
    """Content hash of a model; empty for a file that is not there, which its rows then say."""
    if isinstance(model, _anemone.Model):
        return model.digest
    return content_hash(model) if os.path.exists(model) else ""


def key_of(task):
    """Identity of a row: a hash over the model's path and content, action, chip, options, metrics, and the file of its data."""
    options = json.dumps(task["options"], sort_keys=True, default=str)
    data = str(task["data"]) if isinstance(task.get("data"), (str, os.PathLike)) else ""
    metrics = ",".join(named(metric)[0] for metric in task.get("metrics", ()))
    text = "\0".join([identity(task["model"]), task["digest"], task["action"], task["chip"], options, metrics, data])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def base(task):
    return {
        "key": key_of(task), "model": identity(task["model"]), "action": task["action"], "chip": task["chip"],
        "options": task["options"],
    }


def failed(task, error):
    """Row of a failed task."""
    code = getattr(error, "code", None) or type(error).__name__
    return {**base(task), "ok": False, "code": code, "error": str(error).split("\n")[0]}


def work(task):
    """Computes one row, in any process. An exception of the task becomes a row with its code; nothing is raised."""
    begun = time.perf_counter()
    result, ended = [], []

    def guarded():
        try:
            result.append(act(task))
        except Exception as error:  # noqa: BLE001 - a row for every error
            result.append(failed(task, error))
        ended.append(time.perf_counter())

    limit = task["time_limit"]
    if limit is None:
        guarded()
    else:
        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        thread.join(limit)
        # On a busy machine the wait may last longer than asked for.
        if not ended or ended[0] - begun > limit:
            result = [failed(task, TimeoutError(f"not done in {limit} s"))]
    return {**result[0], "seconds": round(time.perf_counter() - begun, 4)}


def act(task):
    options, model = task["options"], task["model"]
    if not isinstance(model, _anemone.Model):
        model = _anemone.load(model, dim=options.get("dim"))
    row = {**base(task), "ok": True, "digest": model.digest}
    if task["action"] == "check":
        report = model.check(task["chip"], route=options.get("route", "direct"))
        operations = len(report.operations)
        off = len(report.failures)
        row.update(ok=report.ok, operations=operations, on_engine=operations - off, summary="; ".join(report.summary))
        if off:
            row["first_failure"] = " ".join(str(report.failures[0][k]) for k in ("op", "name", "reason"))
        return row
    # Workers share the cores: one thread each by default.
    threads = options.get("threads", 1)
    program = model.compile(task["chip"], threads=threads)
    row.update(tasks=program.tasks, program_bytes=program.size_bytes)
    if task["action"] == "run":
        row.update(ran(model, program, task))
    elif task["action"] == "evaluate":
        from ._evaluate import evaluate

        data = task["data"]() if callable(task["data"]) else task["data"]
        result = evaluate(
            program, data, options.get("metric", task["metrics"][0]), numerics=options.get("numerics", "exact"),
            threads=threads, limit=options.get("limit"),
        )
        row.update(result.row())
        if result.errors:
            row.update(ok=False, code="data", error=result.errors[0])
    return row


def ran(model, program, task):
    """Scores of a run against the evaluator in fp32."""
    import numpy as np

    data = task["data"]
    if isinstance(data, (str, os.PathLike)):
        data = dict(np.load(data))
    if data is None:
        random = np.random.default_rng(task["options"].get("seed", 0))
        data = {name: random.uniform(-1, 1, program.inputs[name]) for name in program.real_inputs}
    threads = task["options"].get("threads", 1)
    outputs = program.run(inputs=data, numerics=task["options"].get("numerics", "fast"), threads=threads)
    expected = model.evaluate(data)
    row = {}
    for name, score in map(named, task["metrics"]):
        values = {output: score(outputs[output], expected[output]) for output in outputs if output in expected}
        row[name] = values if len(values) != 1 else next(iter(values.values()))
    return row


class Journal:
    """Journal of finished rows, from which an interrupted sweep resumes. A lock file admits one sweep at a time."""

    def __init__(self, path):
        self.path, self.kept = path, {}
        self.lock = path.with_name(path.name + ".lock")
        self._take()
        try:
            end = 0
            if path.exists():
                whole, lines = path.read_bytes(), []
                for line in whole.splitlines(keepends=True):
                    # A line that a crash cut short is written again.
                    if not line.endswith(b"\n"):
                        break
                    row = json.loads(line)
                    # So is the row of a worker that died: it says nothing of the model.
                    if row.get("code") != WorkerDied.__name__:
                        self.kept[row["key"]] = row
                        lines.append(line)
                if not whole.startswith(b"".join(lines)):
                    fresh = path.with_name(path.name + ".new")
                    fresh.write_bytes(b"".join(lines))
                    os.replace(fresh, path)
                end = sum(map(len, lines))
            self.stream = open(path, "r+b" if path.exists() else "w+b")
            self.stream.truncate(end)
            self.stream.seek(end)
        except (ValueError, KeyError, TypeError) as error:
            self._give()
            raise ValueError(f"{path}: not a file of a sweep: {error}") from error
        except OSError:
            self._give()
            raise

    def _take(self):
        for _ in range(2):
            try:
                with open(self.lock, "x") as stream:
                    stream.write(str(os.getpid()))
                return
            except FileExistsError:
                try:
                    owner = int(self.lock.read_text())
                    # On Windows, signal 0 would end the process: a lock stays until it is deleted.
                    if os.name != "nt":
                        os.kill(owner, 0)
                except (ValueError, ProcessLookupError, FileNotFoundError):
                    # A sweep that has ended left its lock.
                    self.lock.unlink(missing_ok=True)
                    continue
                except PermissionError:
                    pass
                break
        raise RuntimeError(f"{self.path}: another sweep writes it (process {self.lock.read_text()}); give another file=")

    def _give(self):
        self.lock.unlink(missing_ok=True)

    def add(self, row):
        """Appends a row, whole or not at all."""
        line = (json.dumps(row, sort_keys=True, default=str) + "\n").encode()
        at = self.stream.tell()
        try:
            self.stream.write(line)
            self.stream.flush()
        except OSError as error:
            self.stream.seek(at)
            self.stream.truncate(at)
            raise OSError(error.errno, f"{error.strerror}; the rows so far are kept, the sweep goes on from them", str(self.path)) from error

    def close(self):
        """Closes the file and releases the lock."""
        self.stream.close()
        self._give()


class Meter:
    """Progress line on standard error, with the remaining time."""

    def __init__(self, total, done, wanted):
        self.total, self.done, self.first = total, done, done
        self.wanted = sys.stderr.isatty() if wanted is None else wanted
        self.begun = self.shown = time.monotonic()

    def step(self):
        self.done += 1
        now = time.monotonic()
        if self.wanted and (now - self.shown > 0.5 or self.done == self.total):
            self.shown = now
            left = (now - self.begun) / max(1, self.done - self.first) * (self.total - self.done)
            sys.stderr.write(f"\r{self.done} of {self.total} rows, {left:.0f} s remain  ")
            sys.stderr.flush()

    def close(self):
        if self.wanted and self.done > self.first:
            sys.stderr.write("\n")


def main(arguments):
    """``ane sweep SPEC.toml``: rows as JSON lines on standard output, or in the file that the specification names."""
    parser = argparse.ArgumentParser(
        prog="ane sweep",
        description="Checks, compiles, runs models for chips, on joblib, Dask or Ray.",
        epilog="SPEC.toml has the arguments of anemone.sweep: models, chips, actions, options (a table or an array of tables), "
        "data (.npz), metrics, backend, workers, file, ordered, time_limit. Paths are those of the working folder.",
    )
    parser.add_argument("spec", metavar="SPEC.toml")
    parser.add_argument("-o", "--output", metavar="FILE", help="file of rows to go on from")
    parser.add_argument("--backend", help="joblib, dask, ray or serial")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    args = parser.parse_args(arguments)
    try:
        import tomllib
    except ImportError:
        import tomli as tomllib
    try:
        with open(args.spec, "rb") as stream:
            spec = tomllib.load(stream)
        spec.update({k: v for k, v in (("file", args.output), ("backend", args.backend)) if v})
        unknown = set(spec) - {
            "models", "chips", "actions", "options", "data", "metrics", "backend", "workers", "file", "ordered", "time_limit"
        }
        if unknown or "models" not in spec:
            problem = f"unknown: {', '.join(sorted(unknown))}" if unknown else "models is missing"
            raise ValueError(f"{args.spec}: {problem}")
        rows = sweep(spec.pop("models"), progress=False if args.quiet else None, **spec)
        bad = 0
        for row in rows:
            bad += not row["ok"]
            if "file" not in spec:
                print(json.dumps(row, sort_keys=True, default=str), flush=True)
    except (OSError, ValueError, TypeError, ImportError, RuntimeError, _anemone.Error) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if bad:
        print(f"{bad} of {len(rows)} rows are not ok", file=sys.stderr)
    return 1 if bad else 0


__all__ = ["Sweep", "main", "sweep"]
