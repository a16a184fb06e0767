"""Checks at the door: every accident is found and named, and untouched tables pass."""

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import pandas as pdst
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from bacoun.columns.checks import Finding, check_table, summary
from bacoun.columns.profile import TableProfile


def as_csv(frame):
    """The table as `stream_table` reads it: all cells are text."""
    text = io.StringIO(frame.to_csv(index=False))
    return pd.read_csv(text, dtype=str, na_filter=False)


def hospital(n_rows, seed):
    rng = np.random.default_rng(seed)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n_rows), "D")
    wards = ["Cardiology", "Surgery", "Paediatrics", "Oncology"]
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n_rows),
            "weight": rng.normal(75, 12, n_rows).round(1),
            "cost": rng.lognormal(10, 1, n_rows).round(2),
            "smoker": rng.random(n_rows) < 0.3,
            "ward": rng.choice(wards, n_rows, p=[0.4, 0.3, 0.2, 0.1]),
            "grade": rng.choice(["A", "B", "C"], n_rows),
            "day": pd.Series(days).dt.strftime("%Y-%m-%d"),
            "lab": np.where(rng.random(n_rows) < 0.15, np.nan, rng.normal(5, 1, n_rows).round(3)),
            "unit": "mg",
        }
    )


KINDS = {"smoker": "boolean", "ward": "category", "grade": "category", "day": "date"}
KINDS |= dict.fromkeys(["age", "weight", "cost", "lab"], "number")
HOSPITAL = TableProfile.of(hospital(1500, 0), KINDS)
NEW = hospital(400, 1)
TABLES = {
    "cancer": load_breast_cancer(as_frame=True).data,
    "wine": load_wine(as_frame=True).data,
    "iris": load_iris(as_frame=True).data,
}
NUMERIC = {
    name: TableProfile.of(table, dict.fromkeys(table, "number")) for name, table in TABLES.items()
}
COLUMN = {"cancer": "mean radius", "wine": "alcohol", "iris": "petal length (cm)"}


def found(profile, frame):
    """From the column and kind of each finding to its severity and message."""
    findings = check_table(profile, frame)
    return {(each.column, each.kind): (each.severity, each.message) for each in findings}


def only(profile, frame):
    """The one finding, apart from copies of training rows."""
    (finding,) = [each for each in check_table(profile, frame) if each.kind != "duplicates"]
    return finding


# --- no false alarms ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("n_rows", [1, 10, 60])
def test_random_rows_that_training_did_not_have_pass(name, n_rows):
    table, rng, passed = TABLES[name], np.random.default_rng(n_rows), 0
    for _ in range(25):
        order = rng.permutation(len(table))
        train, rest = table.iloc[order[: len(table) // 2]], table.iloc[order[len(table) // 2 :]]
        profile = TableProfile.of(train, dict.fromkeys(table, "number"))
        findings = [f for f in check_table(profile, rest.head(n_rows)) if f.kind != "duplicates"]
        assert not any(each.severity == "serious" for each in findings)
        passed += not findings
    assert passed >= 24


@pytest.mark.parametrize("n_rows", [1, 3, 30, 1000])
def test_random_rows_of_mixed_columns_pass(n_rows):
    assert [check_table(HOSPITAL, hospital(n_rows, seed)) for seed in range(2, 32)] == [[]] * 30


def test_many_rows_pass_as_they_are_and_as_text():
    large = hospital(100_000, 1)
    assert check_table(HOSPITAL, large) == []
    assert check_table(HOSPITAL, as_csv(large)) == []


def test_heavy_tails_pass():
    def draw(n_rows, seed):
        rng = np.random.default_rng(seed)
        columns = {
            "cauchy": rng.standard_cauchy(n_rows),
            "pareto": rng.pareto(1.2, n_rows),
            "poisson": rng.poisson(3, n_rows),
            "mostly zero": np.where(rng.random(n_rows) < 0.9, 0, rng.exponential(1, n_rows)),
        }
        return pd.DataFrame(columns)

    for seed in range(25):
        profile = TableProfile.of(draw(200, seed), dict.fromkeys(draw(1, 0), "number"))
        for n_rows in (1, 10, 300):
            assert check_table(profile, draw(n_rows, 1000 + seed)) == []


# --- columns --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_a_missing_column(name):
    column = COLUMN[name]
    finding = only(NUMERIC[name], TABLES[name].drop(columns=column))
    assert (finding.severity, finding.column, finding.kind) == (
        *("serious", column, "missing column"),
    )


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("rename", [str.upper, lambda name: name.replace(" ", "_"), str.swapcase])
def test_a_renamed_column_is_recognized_by_its_name(name, rename):
    column = "total_phenols" if name == "wine" else COLUMN[name]
    now = f"{rename(column)}_"
    finding = only(NUMERIC[name], TABLES[name].rename(columns={column: now}))
    assert (finding.kind, finding.severity) == ("renamed column", "serious")
    assert f"'{column}' is missing; '{now}' has a similar name" in finding.message


@pytest.mark.parametrize("name", TABLES)
def test_a_renamed_column_is_recognized_by_its_distribution(name):
    finding = only(NUMERIC[name], TABLES[name].rename(columns={COLUMN[name]: "X7"}))
    assert finding.kind == "renamed column"
    assert "'X7' has the same distribution" in finding.message


@pytest.mark.parametrize("name", TABLES)
def test_other_order_and_extra_columns_are_notes(name):
    table = TABLES[name].iloc[:, ::-1].assign(comment="x")
    kinds = {each.kind: each.severity for each in check_table(NUMERIC[name], table)}
    assert kinds == {"extra column": "note", "reordered": "note", "duplicates": "note"}


def test_target_and_dropped_columns_are_not_extra():
    assert check_table(HOSPITAL, NEW.assign(outcome=1), target="outcome") == []
    assert check_table(HOSPITAL, NEW.drop(columns="unit")) == []


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("cancer", "mean radius", "mean texture"),
        ("wine", "alcohol", "ash"),
        ("iris", "sepal length (cm)", "petal width (cm)"),
    ],
)
def test_swapped_columns(name, one, other):
    table = TABLES[name]
    finding = only(NUMERIC[name], table.assign(**{one: table[other], other: table[one]}))
    assert (finding.severity, finding.kind) == ("serious", "swapped")
    assert finding.message == f"'{one}' and '{other}' seem to be swapped."


def test_values_one_column_off():
    table = TABLES["wine"].shift(1, axis=1)
    findings = check_table(NUMERIC["wine"], table)
    assert [each.kind for each in findings].count("off by one") >= 8
    assert (
        findings[0].message
        == "'malic_acid' seems to hold the values of 'alcohol'; values are one column off."
    )


def test_a_file_without_header_or_with_another_delimiter():
    headless = as_csv(NEW).set_axis([str(value) for value in NEW.iloc[0]], axis=1)
    assert only(HOSPITAL, headless).kind == "no header"
    bars = pd.DataFrame({"|".join(NEW): ["|".join(map(str, row)) for row in NEW.to_numpy()]})
    assert only(HOSPITAL, bars).kind == "delimiter"


@pytest.mark.parametrize("value", ["kg", 3, None])
def test_a_constant_that_changed(value):
    assert only(HOSPITAL, NEW.assign(unit=value)).kind == "constant changed"


def test_repeated_names():
    twice = NEW.set_axis(["age", "age", *NEW.columns[2:]], axis=1)
    kinds = [each.kind for each in check_table(HOSPITAL, twice)]
    assert kinds[:2] == ["repeated column", "missing column"]


# --- numbers --------------------------------------------------------------------------------------

CONVERSIONS = [
    (lambda x: 1000 * x, "x 1000 ("),
    (lambda x: x / 100, "/ 100 ("),
    (lambda x: 1e6 * x, "x 1000000 "),
    (lambda x: 2.54 * x, "x 2.54 (inch as cm)"),
    (lambda x: x / 25.4, "/ 25.4 (mm as inch)"),
    (lambda x: 2.2046 * x, "x 2.2046 (kg as pounds)"),
    (lambda x: 60 * x, "x 60 ("),
    (lambda x: x / 365.25, "/ 365.25 ("),
    (lambda x: 1.8 * x + 32, "Celsius as Fahrenheit"),
    (lambda x: x - 273.15, "Kelvin as Celsius"),
    (lambda x: -x, "the opposite sign"),
    (np.log, "the natural logarithm"),
    (lambda x: (x - x.mean()) / x.std(), "standardization"),
]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(("convert", "label"), CONVERSIONS, ids=[label for _, label in CONVERSIONS])
def test_another_unit_is_explained(name, convert, label):
    table, column = TABLES[name], COLUMN[name]
    finding = only(NUMERIC[name], as_csv(table.assign(**{column: convert(table[column])})))
    assert (finding.severity, finding.column, finding.kind) == ("serious", column, "unit")
    assert label in finding.message


@pytest.mark.parametrize("name", TABLES)
def test_a_single_row_far_out_is_serious(name):
    row = TABLES[name].head(1)
    finding = only(NUMERIC[name], row.assign(**{COLUMN[name]: 1e5}))
    assert (finding.severity, finding.column) == ("serious", COLUMN[name])


@pytest.mark.parametrize("name", TABLES)
def test_decimal_commas(name):
    table, column = TABLES[name], COLUMN[name]
    commas = table[column].map(lambda value: f"{value:.2f}".replace(".", ","))
    finding = only(NUMERIC[name], as_csv(table.assign(**{column: commas})))
    assert (finding.severity, finding.column, finding.kind) == (
        *("serious", column, "decimal comma"),
    )
    assert "export with decimal points" in finding.message


@pytest.mark.parametrize(
    ("write", "why"),
    [
        ("{:.1f} kg", "unit in the cell"),
        ("{:.0f}%", "percent signs"),
        ("<{:.1f}", "bounds of a measurement"),
        ("heavy", "such as 'heavy'"),
    ],
)
def test_numbers_that_became_text(write, why):
    finding = only(HOSPITAL, NEW.assign(weight=NEW["weight"].map(write.format)))
    assert (finding.severity, finding.kind) == ("serious", "retyped")
    assert why in finding.message


def test_commas_between_thousands_are_not_decimal_commas():
    costs = NEW[NEW["cost"] > 2000]
    finding = only(HOSPITAL, costs.assign(cost=costs["cost"].map("{:,.0f}".format)))
    assert finding.kind == "retyped"
    assert "commas between thousands" in finding.message


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("code", [-999, -99, -9, 9999, 999, -1])
def test_missing_codes(name, code):
    table, column = TABLES[name].copy(), COLUMN[name]
    table.loc[table.index % 10 == 0, column] = code
    finding = only(NUMERIC[name], as_csv(table))
    assert (finding.severity, finding.column, finding.kind) == ("serious", column, "missing code")
    assert f"{code} may stand for a missing value" in finding.message


def test_codes_instead_of_gaps_and_words():
    assert only(HOSPITAL, NEW.fillna({"lab": -999})).kind == "missing code"
    finding = only(HOSPITAL, NEW.assign(weight=NEW["weight"].where(NEW["age"] < 80, "?")))
    assert (finding.kind, finding.severity) == ("missing code", "serious")


@pytest.mark.parametrize("name", TABLES)
def test_gaps_where_training_had_none(name):
    table, column = TABLES[name].copy(), COLUMN[name]
    table.loc[table.index % 4 == 0, column] = np.nan
    finding = only(NUMERIC[name], as_csv(table))
    assert (finding.severity, finding.column, finding.kind) == ("serious", column, "gaps")
    table[column] = np.nan
    assert "is empty; it had none in training" in only(NUMERIC[name], table).message


def test_more_and_fewer_gaps_than_in_training():
    more = only(HOSPITAL, NEW.assign(lab=NEW["lab"].where(NEW["age"] % 4 > 0)))
    assert (more.kind, more.severity) == ("gaps", "note")
    fewer = only(HOSPITAL, NEW.assign(lab=NEW["lab"].ffill().bfill()))
    assert "may have been filled" in fewer.message


@pytest.mark.parametrize(("by", "severity"), [(0.6, "note"), (2.0, "serious")])
def test_a_shifted_mean(by, severity):
    finding = only(HOSPITAL, NEW.assign(weight=NEW["weight"] + by * 12 + 0.05 * NEW["age"]))
    assert (finding.kind, finding.severity) == ("shift", severity)


def test_rounded_numbers_new_values_and_infinity():
    assert only(HOSPITAL, NEW.assign(cost=NEW["cost"].round())).kind == "rounding"
    codes = pd.DataFrame({"code": [1, 2, 4] * 100})
    profile = TableProfile.of(codes, {"code": "number"})
    finding = next(
        each
        for each in check_table(profile, pd.DataFrame({"code": [1, 2, 4] * 30 + [3] * 9}))
        if each.kind == "new value"
    )
    assert "only 3 different values" in finding.message
    assert only(HOSPITAL, NEW.assign(cost=NEW["cost"].where(NEW["age"] > 20, np.inf))).kind == (
        "infinite"
    )


# --- categories, booleans and dates ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "recode", "why"),
    [
        ("ward", str.upper, "letter case or spaces differ, as in 'CARDIOLOGY' for 'Cardiology'"),
        ("ward", lambda name: f" {name} ", "letter case or spaces differ"),
        ("ward", lambda name: name[:4], "they are truncated, as in 'Card' for 'Cardiology'"),
        ("ward", lambda name: f"{name}.", "punctuation differs"),
        ("grade", {"A": "1", "B": "2", "C": "3"}.get, "they are numbers"),
    ],
)
@pytest.mark.parametrize("n_rows", [1, 400])
def test_recoded_categories(column, recode, why, n_rows):
    rows = NEW.sort_values("ward", ignore_index=True)
    finding = only(HOSPITAL, rows.head(n_rows).assign(**{column: rows[column].map(recode)}))
    assert (finding.severity, finding.column, finding.kind) == ("serious", column, "recoded")
    assert why in finding.message


def test_new_categories():
    few = only(HOSPITAL, NEW.assign(ward=NEW["ward"].where(NEW["age"] < 88, "Radiology")))
    assert (few.severity, few.kind) == ("note", "new category")
    assert "'Radiology'" in few.message
    many = only(HOSPITAL, NEW.assign(ward="Radiology"))
    assert (many.severity, many.kind) == ("serious", "new category")
    single = only(HOSPITAL, NEW.head(1).assign(ward="Radiology"))
    assert single.severity == "serious"
    code = only(HOSPITAL, NEW.assign(ward=NEW["ward"].where(NEW["age"] < 60, "unknown")))
    assert code.kind == "missing code"


def test_other_shares_of_categories_and_booleans():
    ward = only(HOSPITAL, NEW.assign(ward=NEW["ward"].mask(NEW["age"] > 60, "Surgery")))
    assert (ward.kind, ward.severity) == ("shift", "note")
    assert "'ward' is 'Surgery' in" in ward.message
    assert only(HOSPITAL, NEW.assign(smoker=True)).severity == "serious"


@pytest.mark.parametrize("words", [("yes", "no"), ("t", "f"), (2, 1)])
def test_recoded_booleans(words):
    finding = only(HOSPITAL, NEW.assign(smoker=np.where(NEW["smoker"], *words)))
    assert (finding.severity, finding.kind) == ("serious", "recoded")
    assert repr(str(words[0])) in finding.message


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (lambda day: day.dt.strftime("%d.%m.%Y"), "which is %d.%m.%Y"),
        (lambda day: day.dt.strftime("%m/%d/%Y"), "which is %m/%d/%Y"),
        (lambda day: (day - pd.Timestamp("1899-12-30")).dt.days, "as in Excel"),
        (lambda day: (day - pd.Timestamp(0)).dt.total_seconds().astype(int), "seconds since 1970"),
    ],
)
def test_another_date_format(write, why):
    finding = only(HOSPITAL, as_csv(NEW.assign(day=write(pd.to_datetime(NEW["day"])))))
    assert (finding.severity, finding.column, finding.kind) == ("serious", "day", "date format")
    assert why in finding.message


def test_a_date_format_that_is_not_iso_is_shown_by_example():
    days = pd.DataFrame({"day": pd.to_datetime(NEW["day"]).dt.strftime("%d.%m.%Y")})
    profile = TableProfile.of(days, {"day": "date"}, {"day": "%d.%m.%Y"})
    assert {each.kind for each in check_table(profile, days)} <= {"duplicates"}
    finding = only(profile, NEW[["day"]].replace("-", "", regex=True))
    assert "written as 20210403; write them as in training, such as 03.04.2021" in finding.message


def test_later_dates_are_a_note():
    later = (pd.to_datetime(NEW["day"]) + pd.Timedelta(days=900)).dt.strftime("%Y-%m-%d")
    finding = only(HOSPITAL, NEW.assign(day=later))
    assert (finding.severity, finding.kind) == ("note", "shift")


# --- rows and summary -----------------------------------------------------------------------------


def test_copies_of_training_rows_are_found_in_text():
    copies = pd.concat([hospital(1500, 0).head(100), NEW.head(100)])
    finding = found(HOSPITAL, as_csv(copies))[None, "duplicates"]
    assert finding[0] == "note"
    assert finding[1].startswith("50 % of the rows are copies")


def test_rows_that_repeat_by_nature_are_no_copies():
    coins = pd.DataFrame({"a": [True, False] * 100, "b": [True, True, False, False] * 50})
    profile = TableProfile.of(coins, {"a": "boolean", "b": "boolean"})
    assert check_table(profile, coins.sample(50, random_state=0)) == []


def test_serious_findings_come_first_and_summaries_are_short():
    spoiled = NEW.iloc[:, ::-1].drop(columns="age").assign(x=1, ward="Radiology", smoker="yes")
    findings = check_table(HOSPITAL, spoiled)
    order = [each.severity for each in findings]
    assert order == sorted(order, reverse=True)
    lines = summary(findings)
    assert len(lines) == 3
    assert lines[0] == "serious: 'age' is missing; the model needs it."
    assert lines[-1] == f"and {len(findings) - 2} more findings; bacoun check lists all."
    assert summary([]) == []
    assert summary(findings[:1]) == lines[:1]


def test_a_summary_names_columns_with_the_same_finding():
    findings = [Finding("serious", name, "unit", f"'{name}' changed.") for name in "abcdef"]
    assert summary(findings) == ["serious: 'a' changed. The same in 'b', 'c', 'd' and 2 more."]


# --- nothing raises -------------------------------------------------------------------------------

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.dates(),
    st.datetimes(), st.decimals(), st.complex_numbers(), st.binary(max_size=3), st.just(pd.NA),
    st.lists(st.integers(), max_size=2), st.sampled_from(["1,5", "NA", "-999", "A", "Cardiology"]),
)  # fmt: skip


@settings(max_examples=30)
@given(st.data(), st.integers(0, 12))
def test_no_content_raises(data, n_rows):
    names = data.draw(st.lists(st.sampled_from([*NEW, "x", "Age", ""]), max_size=6))
    columns = [data.draw(st.lists(VALUES, min_size=n_rows, max_size=n_rows)) for _ in names]
    series = [pd.Series(column, dtype=object) for column in columns]
    frame = pd.concat(series, axis=1) if series else pd.DataFrame(index=range(n_rows))
    findings = check_table(HOSPITAL, frame.set_axis(names, axis=1))
    assert all(each.message.endswith(".") for each in findings)
    assert any(each.severity == "serious" for each in findings)


@settings(max_examples=30)
@given(
    pdst.data_frames(
        [
            pdst.column("age", dtype=float),
            pdst.column("weight", dtype="datetime64[ns]"),
            pdst.column("cost", dtype=np.int64),
            pdst.column("smoker", dtype=bool),
            pdst.column("ward", dtype=complex),
            pdst.column("grade", dtype="timedelta64[ns]"),
            pdst.column("day", dtype=float),
            pdst.column("lab", dtype=np.uint8),
        ]
    )
)
def test_no_type_raises(frame):
    check_table(HOSPITAL, frame)
    check_table(HOSPITAL, frame.astype({"age": "category", "cost": "Int64", "smoker": "boolean"}))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(),
        pd.DataFrame(index=range(3)),
        NEW.head(0),
        NEW.head(2).rename(columns={"age": 3, "weight": ("a", "b")}),
        pd.DataFrame(np.nan, index=range(5), columns=list(NEW)),
        NEW.assign(ward=NEW["ward"].astype("category"), age=NEW["age"].astype("Int64")),
        NEW.convert_dtypes(dtype_backend="pyarrow"),
    ],
    ids=["nothing", "no columns", "no rows", "odd names", "all missing", "typed", "arrow"],
)
def test_odd_tables_do_not_raise(frame):
    assert isinstance(check_table(HOSPITAL, frame), list)
    assert isinstance(check_table(HOSPITAL, frame, target="age"), list)
