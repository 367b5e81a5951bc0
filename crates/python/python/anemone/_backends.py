"""Back ends that distribute the work of a sweep: joblib's processes, Dask, Ray, or this process. Each has
``map(function, tasks)``, an iterator of pairs: a task's number, and its row or the error that ended its worker."""

import itertools
import os


class WorkerDied(Exception):
    """A worker ended while it had the task."""


#: Number of times that a task is given to another worker after one has ended.
RETRIES = 2


class Serial:
    """This process."""

    name, workers = "serial", 1

    def map(self, function, tasks):
        for number, task in tasks:
            yield number, function(task)


class Joblib:
    """Local processes: the executor of joblib (loky)."""

    name = "joblib"

    def __init__(self, workers=None):
        from joblib import cpu_count

        self.workers = workers or cpu_count()

    def map(self, function, tasks):
        from concurrent.futures import FIRST_COMPLETED, wait
        from concurrent.futures.process import BrokenProcessPool

        from joblib.externals.loky import get_reusable_executor

        tasks, tries, alone, running = iter(tasks), {}, [], {}

        def submit(number, task):
            try:
                executor = get_reusable_executor(max_workers=self.workers, timeout=60)
                running[executor.submit(function, task)] = (number, task)
            except OSError as error:
                needs = 'joblib starts processes, which share semaphores in /dev/shm; backend="serial" needs none'
                raise OSError(error.errno, f"{error.strerror}: {needs}") from error

        try:
            while True:
                # After a death nobody knows whose task it was: those that were running go on one at a time.
                while alone and not running:
                    submit(*alone.pop(0))
                room = 0 if alone else 2 * self.workers - len(running)
                for number, task in itertools.islice(tasks, max(room, 0)):
                    submit(number, task)
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                broken = []
                for future in done:
                    number, task = running.pop(future)
                    try:
                        yield number, future.result()
                    except BrokenProcessPool:
                        broken.append((number, task))
                if broken:
                    broken += running.values()
                    running.clear()
                    get_reusable_executor(max_workers=self.workers, timeout=60, kill_workers=True, reuse=False)
                    for number, task in broken:
                        tries[number] = tries.get(number, 0) + 1
                        if tries[number] > RETRIES:
                            yield number, WorkerDied(f"a worker ended {tries[number]} times with this task")
                        else:
                            alone.append((number, task))
        finally:
            for future in running:
                future.cancel()


class Dask:
    """A client of Dask's ``distributed``; without one, a local cluster."""

    name = "dask"

    def __init__(self, client=None, workers=None):
        from distributed import Client

        self.own = client is None
        # Local workers are processes of one thread each.
        local = {"n_workers": workers or os.cpu_count(), "threads_per_worker": 1, "dashboard_address": None}
        self.client = Client(**local) if self.own else client
        self.workers = max(1, sum(self.client.nthreads().values()))

    def map(self, function, tasks):
        from distributed import as_completed

        tasks, numbers = iter(tasks), {}
        done = as_completed()

        def submit(count):
            for number, task in itertools.islice(tasks, count):
                future = self.client.submit(function, task, pure=False)
                numbers[future.key] = number
                done.add(future)

        try:
            submit(4 * self.workers)
            for future in done:
                error = future.exception()
                number = numbers.pop(future.key)
                yield number, future.result() if error is None else WorkerDied(f"{type(error).__name__}: {error}")
                submit(1)
        except Exception as error:
            # Whatever a closed client raises, it has several kinds of errors for it.
            if self.client.status not in ("closed", "closing"):
                raise
            raise RuntimeError("the client of Dask has closed; a sweep with file= goes on from the rows so far") from error
        finally:
            if self.own:
                self.client.close()


class Ray:
    """Ray: the cluster that is connected, else a local one."""

    name = "ray"

    def __init__(self, workers=None):
        import ray

        if not ray.is_initialized():
            ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
        self.ray, self.workers = ray, max(1, int(ray.cluster_resources().get("CPU", 1)))

    def map(self, function, tasks):
        ray, tasks, running = self.ray, iter(tasks), {}
        remote = ray.remote(max_retries=RETRIES)(function)
        while True:
            for number, task in itertools.islice(tasks, max(0, 4 * self.workers - len(running))):
                running[remote.remote(task)] = number
            if not running:
                return
            (done,), _ = ray.wait(list(running), num_returns=1)
            number = running.pop(done)
            try:
                yield number, ray.get(done)
            except ray.exceptions.RayError as error:
                yield number, WorkerDied(f"{type(error).__name__}: {error}")


def chosen(backend, workers=None):
    """A back end by its name, or for a client that was passed."""
    if backend == "serial":
        return Serial()
    made = {"joblib": Joblib, "dask": Dask, "ray": Ray}
    if isinstance(backend, str):
        if backend not in made:
            raise ValueError(f"no back end is called {backend!r}; known: serial, {', '.join(made)}")
        try:
            return made[backend](workers=workers)
        except ImportError as error:
            package = {"dask": "distributed"}.get(backend, backend)
            raise ImportError(f"the back end {backend} needs a package: pip install {package}") from error
    if hasattr(backend, "submit") and hasattr(backend, "nthreads"):
        return Dask(client=backend)
    if hasattr(backend, "remote") and hasattr(backend, "wait"):
        return Ray(workers=workers)
    raise TypeError(f"a name or a client of Dask or Ray is expected, found {type(backend).__name__}")
