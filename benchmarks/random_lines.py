"""Draw lines of the package at random, to judge which room each is and what may be touched.

python -m benchmarks.random_lines --seed 0 --n 12
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

ROOT = Path(__file__).parents[1]


def draw(seed: int, n_lines: int) -> list[tuple[str, int, str]]:
    """File, line number and text of lines that are not blank, all equally likely."""
    lines = [
        (str(file.relative_to(ROOT)), number, text)
        for file in sorted((ROOT / "src" / "bacoun").rglob("*.py"))
        for number, text in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if text.strip()
    ]
    return random.Random(seed).sample(lines, n_lines)


def main() -> None:
    """Print the lines, the same ones for the same seed and files."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seed", type=int, default=0, help="0 if not given")
    parser.add_argument("--n", type=int, default=12, help="number of lines, 12 if not given")
    arguments = parser.parse_args()
    for file, number, text in draw(arguments.seed, arguments.n):
        print(f"{file}:{number}: {text.strip()}")


if __name__ == "__main__":
    main()
