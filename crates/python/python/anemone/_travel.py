"""Pickling: an object travels as the hash of its model's content and the place of the model, with the bytes only where
asked (``portable=True``). A process keeps what it has rebuilt, so that one model or program is rebuilt once however often
it is sent."""

import hashlib
import io
import os
import pathlib
import shutil
import tempfile
import threading
import zipfile

from . import _anemone

_lock = threading.RLock()
_models = {}
_programs = {}
#: Number of programs that this process has rebuilt.
rebuilt = 0

#: Number of objects that a process keeps; the oldest are dropped first.
KEPT = 32


def content_hash(path):
    """SHA-256 in hexadecimal over a file, or over names and contents of a folder's files."""
    path = pathlib.Path(path)
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    digest = hashlib.sha256()
    for file in files:
        name = file.name if file == path else file.relative_to(path).as_posix()
        digest.update(f"{name if path.is_dir() else ''}\0{file.stat().st_size}\0".encode())
        with open(file, "rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def cache_folder():
    """Folder of the models that came with their bytes: ``ANEMONE_OBJECTS``, or below the user's cache folder."""
    named = os.environ.get("ANEMONE_OBJECTS")
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(named) if named else pathlib.Path(base) / "anemone" / "objects"


def packed(path):
    """A file or folder as the bytes of an archive."""
    path = pathlib.Path(path)
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for file in files:
            archive.write(file, (path.name / file.relative_to(path)).as_posix())
    return stream.getvalue()


def unpacked(digest, name, data):
    """The file or folder of ``packed`` in the cache. Several processes may do this at once: the first to finish stays."""
    place = cache_folder() / digest
    if place.exists() and not ((place / name).exists() and content_hash(place / name) == digest):
        # Damaged, by a full disk or by hand.
        shutil.rmtree(place, ignore_errors=True)
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = pathlib.Path(tempfile.mkdtemp(prefix=".new-", dir=place.parent))
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                archive.extractall(fresh)
            fresh.rename(place)
        except OSError:
            if not place.exists():
                raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return place / name


def _kept(table, key, make, stale=lambda kept: False):
    with _lock:
        if key not in table or stale(table[key]):
            made = make()
            while len(table) >= KEPT:
                del table[next(iter(table))]
            table[key] = made
        return table[key]


def model_state(model):
    """Pickled state of a model: digest, path, extents and function, portability, and the bytes if it is portable."""
    path = pathlib.Path(model.path).resolve()
    dim = tuple(sorted((model.dim or {}).items()))
    return model.digest, str(path), (dim, model.function), model.portable, packed(path) if model.portable else None


def model(digest, path, choices, portable, data):
    """Rebuilds a model from its path, from the cache, or from the bytes that came along."""

    dim, function = choices

    def make():
        place = pathlib.Path(path)
        if not (place.exists() and content_hash(place) == digest):
            cached = cache_folder() / digest / place.name
            if data is not None:
                cached = unpacked(digest, place.name, data)
            if not cached.exists() or content_hash(cached) != digest:
                raise FileNotFoundError(
                    f"{path}: not here with the content {digest[:12]}, nor in {cache_folder()}: "
                    "load the model with portable=True to send its bytes along"
                )
            place = cached
        return _anemone.load(place, dim=dict(dim) or None, function=function, portable=portable)

    # The file it was read from may have gone.
    return _kept(_models, (digest, choices, portable), make, lambda kept: not os.path.exists(kept.path))


def program(model_state, chip, engine_only, threads, pid):
    """A program again. In another process than the one that pickled it, it takes one thread unless told otherwise, so that
    N workers take N cores."""
    if threads is None and pid != os.getpid():
        threads = 1

    def make():
        global rebuilt
        rebuilt += 1
        return model(*model_state).compile(chip, engine_only=engine_only, threads=threads)

    return _kept(_programs, (model_state[0], model_state[2], chip, engine_only, threads), make)


def report(model_state, chips, route, strict=False):
    """Rebuilds a report."""
    return model(*model_state).check(list(chips), route=route, strict=strict)
