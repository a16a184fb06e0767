"""Write the tables of the benchmark records into the pages, between their markers.

python -m benchmarks.page
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from reproduction.pages.blocks import with_block

from benchmarks import (
    ablations,
    accidents,
    accuracy,
    beside_forest,
    bounds,
    costs,
    drift,
    embeddings,
    explanations,
    fit_time,
    hostile,
    ood,
    out_of_core,
    scale,
    serve,
    wide,
)
from benchmarks.record import Record

DOCS = Path(__file__).parents[1] / "docs"
STUDIES: dict[str, dict[str, Callable[[Record], str]]] = {
    "tables.md": {
        "accidents": accidents.markdown,
        "explanations": explanations.markdown,
        "wide": wide.markdown,
        "bounds": bounds.markdown,
    },
    "accuracy.md": {"accuracy": accuracy.markdown, "fit_time": fit_time.markdown},
    "comparison.md": {"ood": ood.markdown},
    "defaults.md": {"ablations": ablations.markdown},
    "howto/serve.md": {"serve": serve.markdown, "hostile": hostile.markdown},
    "howto/watch.md": {"drift": drift.markdown},
    "../README.md": {"ood": ood.short_markdown},
}
# These take a machine with little else to do.
for page, studies in {
    "scale.md": (scale, out_of_core, costs, beside_forest),
    "embeddings.md": (embeddings,),
}.items():
    measured = [study for study in studies if study.RECORD.exists()]
    STUDIES[page] = {study.RECORD.stem: study.markdown for study in measured}


def page_text(page: str, text: str) -> str:
    """The page with each block between `<!-- name -->` and `<!-- end -->` made from its record."""
    for name, markdown in STUDIES[page].items():
        record = json.loads(Path(__file__).with_name(f"{name}.json").read_text())
        text = with_block(text, name, markdown(record))
    return text


if __name__ == "__main__":
    for page in STUDIES:
        path = DOCS / page
        path.write_text(page_text(page, path.read_text()))
