"""The house: rooms of moderate size, all on the map, each module with its tests."""

import re
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = ROOT / "src" / "bacoun", ROOT / "tests"
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MODULES = sorted(SOURCE.rglob("*.py"))
MOST_FILES, MOST_LINES = 12, 400


def rows_below(title):
    """Cells of the table in a section of CONTRIBUTING.md, without its head."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names_in(cell):
    return re.findall(r"`([^`]+)`", cell)


def test_no_file_is_long():
    lines = {str(file.relative_to(SOURCE)): len(file.read_text().splitlines()) for file in MODULES}
    assert {file: n for file, n in lines.items() if n > MOST_LINES} == {}


def test_no_room_is_crowded():
    rooms = {file.parent for file in MODULES}
    sizes = {str(room.relative_to(SOURCE)): len([*room.glob("*.py")]) for room in rooms}
    assert {room: n for room, n in sizes.items() if n > MOST_FILES} == {}


def test_the_map_names_every_room():
    rooms = {file.parent.relative_to(SOURCE).as_posix() for file in MODULES} - {"."}
    on_the_map = {name for first, _ in rows_below("Where things are") for name in names_in(first)}
    assert on_the_map == rooms


def test_every_room_says_what_it_is_for():
    silent = [str(file) for file in SOURCE.rglob("__init__.py") if '"""' not in file.read_text()]
    assert silent == []


def test_every_module_has_its_tests_or_says_where_they_are():
    without = []
    for file in MODULES:
        place = file.relative_to(SOURCE)
        if (
            file.name != "__init__.py"
            and not (TESTS / place.with_name(f"test_{file.name}")).exists()
        ):
            without.append(place.as_posix())
    rows = rows_below("Tests without a file of their own")
    patterns = {pattern for first, *_ in rows for pattern in names_in(first)}
    assert [name for name in without if not any(fnmatch(name, p) for p in patterns)] == []
    assert [p for p in patterns if not any(fnmatch(name, p) for name in without)] == []
    named = [test for _, tests, _ in rows for test in names_in(tests)]
    assert [test for test in named if not (ROOT / test).exists()] == []
