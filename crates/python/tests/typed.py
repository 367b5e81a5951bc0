"""Uses of every part of the package; mypy and pyright check it against the stubs, nothing runs it."""

from typing import Any, Dict, List

import anemone
import numpy as np


def uses(path: str) -> None:
    model = anemone.load(path, dim={"N": 1}, portable=True)
    report: anemone.Report = model.check(["m1", "m4"], route="direct")
    failures: List[Dict[str, str]] = report.failures
    program: anemone.Program = model.compile("m1", threads=2)
    outputs = program.run(np.zeros((1, 3)), numerics="exact", threads=1)
    first: float = float(next(iter(outputs.values()))[0])
    beside = model.evaluate({"x": [1.0, 2.0]})
    rows: List[Dict[str, Any]] = anemone.sweep(path, chips="m1", actions=["check"], options=[{"route": "direct"}]).rows
    result: anemone.Evaluation = anemone.evaluate(program, [(np.zeros(3), 1)], "top1")
    low: float = result.program.low
    graph = anemone.Graph("g")
    graph.output(graph.native("ReLU", [graph.input("x", [1, 2, 3, 4])]))
    paths: List[str] = graph.compile().save("out", emit=["hwx"])
    anemone.assert_on_ane(model, "m1")
    print(failures, first, beside, rows, low, paths, model.digest, program.tasks, program.real_inputs)
