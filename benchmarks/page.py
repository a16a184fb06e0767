"""Write the tables of the benchmark records into docs/tables.md, between their markers.

python -m benchmarks.page
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from benchmarks import accidents, bounds, explanations, wide
from benchmarks.record import Record

PAGE = Path(__file__).parents[1] / "docs" / "tables.md"
STUDIES: dict[str, Callable[[Record], str]] = {
    "accidents": accidents.markdown,
    "explanations": explanations.markdown,
    "wide": wide.markdown,
    "bounds": bounds.markdown,
}


def page_text(text: str) -> str:
    """The page with each block between `<!-- name -->` and `<!-- end -->` made from its record."""
    for name, markdown in STUDIES.items():
        record = json.loads(Path(__file__).with_name(f"{name}.json").read_text())
        block = f"<!-- {name} -->\n\n{markdown(record).strip()}\n\n<!-- end -->"
        text, n_found = re.subn(
            rf"<!-- {name} -->.*?<!-- end -->", lambda _, b=block: b, text, flags=re.DOTALL
        )
        if n_found != 1:
            raise ValueError(f"the page must have one block '{name}'; it has {n_found}.")
    return text


if __name__ == "__main__":
    PAGE.write_text(page_text(PAGE.read_text()))
