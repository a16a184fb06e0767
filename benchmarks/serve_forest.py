"""The stack of `bacoun serve`, with a scikit-learn forest in place of the model.

The same access checks, routes, pool and worker process; `benchmarks.serve` measures it beside ours.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from bacoun.engine.processes import messages
from bacoun.server.app import create_app, serve
from bacoun.server.jobs import Answer, Job, Model
from bacoun.server.settings import Settings
from bacoun.server.workers.catalog import Catalog


class OneModel(Catalog):
    """A catalog of one model that is on no disk."""

    def names(self) -> list[str]:
        """Its name."""
        return ["model"]

    def __getitem__(self, name: str) -> Model:
        return Model("model", "", ())


class ForestScorer:
    """A random forest on the rows that ours is fitted to."""

    def __init__(self) -> None:
        from sklearn.ensemble import RandomForestClassifier

        from benchmarks.serve import table

        train = table()[:400]
        self.columns = list(train.drop(columns="diagnosis"))
        self.forest = RandomForestClassifier(random_state=0)
        self.forest.fit(train[self.columns].to_numpy(), train["diagnosis"])

    def answer(self, jobs: Sequence[Job]) -> list[Answer]:
        """Predict the rows of all jobs at once, as our worker does."""
        import numpy as np

        from bacoun.server.dialects.formats import dump_json, read_rows

        if jobs[0].kind != "predict":
            return [Answer(b"{}") for _ in jobs]
        given: list[Any] = [read_rows(job.body, job.media_type) for job in jobs]
        columns = [[v for each in given for v in each[name]] for name in self.columns]
        chances = self.forest.predict_proba(np.array(columns, dtype=float).T)
        labels = self.forest.classes_
        records = [
            {"prediction": labels[k]} | dict(zip(labels, map(float, row), strict=True))
            for row, k in zip(chances, chances.argmax(axis=1), strict=True)
        ]
        answers, start = [], 0
        for each in given:
            n_rows = len(each[self.columns[0]])
            body = dump_json({"model": "model", "rows": records[start : start + n_rows]})
            answers.append(Answer(body, rows=n_rows))
            start += n_rows
        return answers


def score_jobs(connection: Connection, settings: Settings) -> None:
    """The worker process."""
    scorer = ForestScorer()
    for jobs in messages(connection):
        connection.send(scorer.answer(jobs))


if __name__ == "__main__":
    from benchmarks.serve_forest import score_jobs as work  # by a name that workers can import

    chosen = Settings(port=0, playground=False)
    serve(
        create_app(OneModel(), chosen, work=work),
        chosen,
        lambda address: print(f"listening on {address}", file=sys.stderr, flush=True),
    )
