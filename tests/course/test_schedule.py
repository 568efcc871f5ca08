"""Plans of a term: the ready ones fit the book, the hours are its own, and all ways of writing agree."""

from __future__ import annotations

import csv
import io
from datetime import date, datetime
from pathlib import Path

import pytest

from ppobook.cli.main import main
from ppobook.course import schedule
from ppobook.teaching import contents, plans
from ppobook.teaching.plans import Plan

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def book() -> contents.Book:
    return contents.read_book(ROOT)


def test_the_minutes_are_the_books_own(book: contents.Book) -> None:
    from ppobook.teaching import minutes, tags

    path = next((ROOT / "chapters").glob("03_*.ipynb"))
    assert book.chapters[3].minutes == pytest.approx(minutes.count(tags.read(path)["cells"]).minutes)
    assert book.tasks["clipped-loss"].exercise.minutes == 15
    assert book.tasks["clipped-loss"].set == "03_the_clipped_surrogate"


@pytest.mark.parametrize("weeks", plans.lengths())
def test_a_ready_plan_fits_the_book(book: contents.Book, weeks: int) -> None:
    plan = plans.ready(book, weeks)
    assert len(plan.weeks) == weeks
    read = [section for week in plan.weeks for section in week.read]
    assert len(read) == len(set(read))
    # In the order of the book, and exercises not before their chapter was begun.
    assert [s.chapter for s in read] == sorted(s.chapter for s in read)
    begun: set[int] = set()
    labels: list[str] = []
    for week in plan.weeks:
        begun |= {section.chapter for section in week.read}
        labels += [task.exercise.label for task in week.tasks]
        for task in week.tasks:
            assert task.chapter in begun or task.set.endswith("final_assessment"), task.exercise.label
        assert week.in_class or week.read
        # No week is twice as long as another.
        assert 2.3 < week.hours[1] < 5
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize("weeks", plans.lengths())
def test_a_plan_names_all_that_it_leaves_out(book: contents.Book, weeks: int) -> None:
    plan = plans.ready(book, weeks)
    said = "\n".join(plan.left_out)
    read = {section for week in plan.weeks for section in week.read}
    for chapter in book.chapters.values():
        whole = not read & set(chapter.sections)
        assert whole == (f"chapter {chapter.number}, {chapter.title}" in said)
        for section in chapter.sections:
            if not whole and not section.title.startswith(plans.CLOSING):
                assert (section in read) == (f"“{section.title}”" not in said), section.title


def test_the_hours_are_counted_with_rereading(book: contents.Book) -> None:
    week = plans.ready(book, 10).weeks[3]
    low, mid, high = week.hours
    assert mid == pytest.approx((1.5 * week.printed + week.exercise_minutes) / 60)
    assert low == pytest.approx((4 / 3 * week.printed + week.exercise_minutes) / 60)
    assert high == pytest.approx((5 / 3 * week.printed + week.exercise_minutes) / 60)


@pytest.mark.parametrize(("weeks", "chapters"), [(1, [3]), (5, [3, 4, 6]), (12, [1, 2]), (3, [10])])
def test_chapters_are_dealt_out(book: contents.Book, weeks: int, chapters: list[int]) -> None:
    plan = schedule.divided(book, weeks, chapters)
    read = [section for week in plan.weeks for section in week.read]
    assert read == [section for number in chapters for section in book.chapters[number].sections]
    assert len(plan.weeks) == weeks
    assert all(week.read for week in plan.weeks)
    tasks = [task.exercise.label for week in plan.weeks for task in week.tasks]
    wanted = [t.exercise.label for number in chapters for t in schedule._assigned(book, number)]
    assert sorted(tasks) == sorted(wanted)


def test_the_fullest_week_is_as_short_as_it_can_be() -> None:
    assert schedule._even([1, 1, 1, 1], 2) == [2, 4]
    assert schedule._even([5, 1, 1, 1], 2) == [1, 4]
    assert schedule._even([1, 2, 3, 4, 5], 3) == [3, 4, 5]
    assert schedule._even([7], 1) == [1]


def test_exercises_can_be_chosen(book: contents.Book) -> None:
    plan = schedule.divided(book, 2, [3], ["hunt-minmax", "clipped-loss"])
    assert {t.exercise.label for week in plan.weeks for t in week.tasks} == {"hunt-minmax", "clipped-loss"}
    with pytest.raises(ValueError, match=r"got 'cliped-loss'\. Did you mean 'clipped-loss'"):
        schedule.divided(book, 2, [3], ["cliped-loss"])


def test_what_cannot_be_planned_is_refused(book: contents.Book) -> None:
    with pytest.raises(ValueError, match="--weeks must be 6, 10 or 14 without --chapters, got 7"):
        plans.ready(book, 7)
    with pytest.raises(ValueError, match=r"--chapters must be among .*, got 77"):
        schedule.divided(book, 7, [77])
    with pytest.raises(ValueError, match="--weeks must be at most 1"):
        schedule.divided(book, 40, [3])


@pytest.fixture(scope="module")
def dated(book: contents.Book) -> Plan:
    due = [("week-01", datetime(2027, 2, 7, 23, 59)), ("later", datetime(2027, 12, 1, 12, 0))]
    return schedule.dated(plans.ready(book, 6), date(2027, 2, 1), due)


def test_dates_and_what_is_due(dated: Plan, book: contents.Book) -> None:
    assert [week.begin for week in dated.weeks][:2] == [date(2027, 2, 1), date(2027, 2, 8)]
    assert dated.weeks[0].due == (("week-01", "2027-02-07 23:59"),)
    text = schedule.as_text(dated, book)
    assert "Week 1 · 1 Feb to 7 Feb 2027 · " in text
    assert "due       week-01, 2027-02-07 23:59" in text


def test_a_table_and_a_page_say_the_same(dated: Plan, book: contents.Book) -> None:
    rows = list(csv.DictReader(io.StringIO(schedule.as_csv(dated, book))))
    page = schedule.as_markdown(dated, book)
    assert len(rows) == 6
    for row, week in zip(rows, dated.weeks, strict=True):
        assert float(row["hours"]) == pytest.approx(week.hours[1], abs=0.01)
        assert row["exercises"].split() == [task.exercise.label for task in week.tasks]
        assert all(label in page for label in row["exercises"].split())
        assert f"{week.hours[1]:.1f} (" in page


def test_a_calendar_has_lines_that_calendars_read(dated: Plan, book: contents.Book) -> None:
    text = schedule.as_ics(dated, book)
    lines = text.split("\r\n")
    assert "\n" not in text.replace("\r\n", "")
    assert all(len(line.encode()) <= 75 for line in lines)
    unfolded = text.replace("\r\n ", "")
    assert unfolded.count("BEGIN:VEVENT") == unfolded.count("END:VEVENT") == 7
    assert "DTSTART;VALUE=DATE:20270208" in unfolded
    assert "DTSTART:20270207T235900" in unfolded
    assert "DESCRIPTION:chapter 0\\, Setting out" in unfolded
    assert text == schedule.as_ics(dated, book)
    with pytest.raises(ValueError, match="a calendar needs dates"):
        schedule.as_ics(plans.ready(book, 6), book)


# --- the command --------------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["course", "schedule", "--weeks", "6"]) == 0
    assert capsys.readouterr().out.startswith("PPO in six weeks\n")
    for suffix in schedule.FORMATS:
        options = f"--weeks 2 --chapters 3,4 --begin 2027-02-01 --out plan{suffix}"
        assert main(f"course schedule {options}".split()) == 0
        assert Path(f"plan{suffix}").stat().st_size > 500


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--weeks 7", "--weeks must be 6, 10 or 14 without --chapters, got 7"),
        ("--weeks none", "--weeks must be an integer"),
        ("--weeks 6 --begin soon", "--begin must be a date, 2027-02-01, got 'soon'"),
        ("--weeks 6 --out plan.pdf", "--out ends in must be"),
        ("--weeks 6 --exercises clipped-loss", "--exercises needs --chapters"),
        ("--weeks 2 --chapters 99", "--chapters must be among"),
    ],
)
def test_bad_input_is_one_sentence(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["course", "schedule", *words.split()]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
