"""Collecting: every source, hostile archives, whose a submission is, and which one counts."""

import io
import json
import os
import stat
import zipfile
from datetime import UTC, datetime, timedelta

import pytest
from filled_in import IN_TIME, git, put
from small_course import write_course

from ppobook.cli import main
from ppobook.course import archives, collecting, handed_in, lateness, packs, trail

WEEK = "week-01"
LATE = datetime(2027, 3, 30, 12, 0, tzinfo=UTC)
DOWNLOADED = (2027, 3, 30, 9, 2, 0)


def notebook(text="x"):
    return json.dumps({"cells": [{"cell_type": "code", "id": "a", "source": text}], "nbformat": 4}).encode()


def zipped(*files, time=(2027, 2, 27, 13, 0, 0), method=zipfile.ZIP_DEFLATED):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in files:
            entry = name if isinstance(name, zipfile.ZipInfo) else zipfile.ZipInfo(name, time)
            archive.writestr(entry, data, method)
    return content.getvalue()


@pytest.fixture
def course(tmp_path):
    return write_course(tmp_path / "course")


@pytest.fixture
def source(tmp_path):
    (tmp_path / "source").mkdir()
    return tmp_path / "source"


def collect(course, source, **options):
    found = collecting.collect(course, WEEK, source, **options)
    found.text = "\n".join(found.said)
    return found


def kept(course, student):
    return collecting.kept(course, WEEK, student)


def texts(course, student):
    found = [json.loads(one.path.read_bytes()) for one in kept(course, student)]
    return [one["cells"][0]["source"] for one in found]


def counting(course):
    return {one.by: one for one in collecting.counting(course, WEEK)}


# --- sources ------------------------------------------------------------------------------------------------


def test_a_folder_of_zips_notebooks_and_folders(course, source):
    put(source / "ada.zip", zipped((f"deep/er/{WEEK}.ipynb", notebook("ada")), ("__MACOSX/._x.ipynb", b"?")))
    put(source / f"BOB_{WEEK}.ipynb", notebook("bob"))
    put(source / "eve" / "work" / f"{WEEK}.ipynb", notebook("eve"))
    put(source / "eve" / ".ipynb_checkpoints" / "w-checkpoint.ipynb", notebook("old"))
    put(source / "notes.txt", b"?")
    found = collect(course, source)
    assert (found.new, found.missing) == (3, [])  # mel is in eve's group
    assert "? notes: nobody in the roster" in found.text
    assert texts(course, "ada") + texts(course, "bob") + texts(course, "eve") == ["ada", "bob", "eve"]
    (ada,) = kept(course, "ada")
    assert ada.receipt["time"] == "2027-02-27T13:00:00+01:00"
    assert ada.folder.name == "2027-02-27T12-00-00Z"
    assert {path.name for path in ada.folder.iterdir()} == {"original.zip", "receipt.json", f"{WEEK}.ipynb"}
    assert collect(course, source).again == 4


def test_moodle(course, tmp_path):
    damaged = zipped(("x.ipynb", notebook()))[:-30]
    data = zipped(
        ("Ada Lovelace_4711_assignsubmission_file_/week-01.ipynb", notebook("ada")),
        ("Bob Müller_4712_assignsubmission_file_mine.zip", damaged),
        ("Group B-Bob Müller_4799_assignsubmission_file_x.ipynb", notebook("bob")),
        ("Eve Maria Astrom_102_assignsubmission_file_/", b""),
        ("Eve Maria Astrom_102_assignsubmission_onlinetext_/onlinetext.html", b"<p>"),
        ("Eve Maria Astrom_102_assignsubmission_file_/a b.ipynb", notebook("eve")),
        ("Nobody Known_101_assignsubmission_file_/x.ipynb", notebook("?")),
        time=(2027, 3, 2, 9, 0, 0),
    )
    said = collect(course, put(tmp_path / "moodle.zip", data, LATE)).said
    assert "+ ada  2027-03-02 09:00, 1 day late" in said
    # A damaged zip has the time of the hand-in.
    assert "+ bob  2027-03-02 09:00, 1 day late" in said
    assert any(one.startswith("! Bob Müller_4712: no notebook of week-01 that can be read") for one in said)
    assert texts(course, "eve") == ["eve"]
    # Somebody else may have taken Bob's name.
    for label in ("Bob Müller_4712", "Group B-Bob Müller_4799"):
        assert f"    {label!r} is one of 2 names in this source that match bob" in said
    # A name counts more than a number.
    assert list((course.folder / "submitted" / WEEK / "_unknown").glob("Nobody_Known_101/*/receipt.json"))


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("Tutorial A-Ada Lovelace_7_assignsubmission_file_/x.ipynb", "ada"),
        ("Default group-Mel O'Neill_7_assignsubmission_file_x.ipynb", "mel"),
        ("Participant_104_assignsubmission_file_/x.ipynb", "mel"),
        ("Participant_9_assignsubmission_file_/x.ipynb", None),
        ("anon_103_9004_x.ipynb", "eve"),
        ("_103_9004_x.ipynb", "eve"),
        ("anon_LATE_x7Qd2_9004_x.ipynb", "zoe"),
        ("anon_y7Qd2_9004_x.ipynb", None),
    ],
)
def test_groups_and_hidden_names(course, tmp_path, name, student):
    with (course.folder / "roster.csv").open("a", encoding="utf-8") as roster:
        roster.write("zoe,Z,Zoe,,,x7Qd2\n")
    collect(course, put(tmp_path / "all.zip", zipped((name, notebook()))))
    found = (course.folder / "submitted" / WEEK).glob("*/*/receipt.json")
    assert [path.parents[1].name for path in found] == ([student] if student else [])


CANVAS = (
    ("lovelaceada_101_9001_week-01.ipynb", notebook("old")),
    ("lovelaceada_101_9002_week-01-1.ipynb", notebook("new")),
    ("mullerbob_LATE_102_9003_week-01.ipynb", notebook("bob")),
    ("astromevemaria_103_9004_work.zip", zipped(("x.ipynb", notebook("eve")))),
    ("bobmuller_104_9005_week-01.ipynb", notebook("whose?")),
    ("an odd\nname.txt", b"?"),
)


def test_a_hand_in_of_canvas_is_not_as_late_as_its_download(course, tmp_path, capsys):
    path = put(tmp_path / "submissions.zip", zipped(*CANVAS, time=DOWNLOADED))
    command = ["course", "collect", WEEK, str(path), "--course", str(course.folder)]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "+ bob  late, time unknown\n" in said
    assert "+ eve  time unknown\n" in said
    assert "Late, nobody knows how late, so all points count until --times says more: bob" in said
    assert texts(course, "ada") == ["new"]
    assert "there are 2 notebooks; lovelaceada_101_9002_week-01-1.ipynb was taken" in said
    assert len(list((course.folder / "submitted" / WEEK / "_unknown").iterdir())) == 2
    counts = counting(course)
    assert [counts[who].received for who in ("ada", "bob", "eve")] == [None, None, None]
    assert (counts["bob"].share, counts["bob"].late_days, counts["bob"].late_unknown) == (1, 0, True)
    # The times, when the instructor has them, correct what is kept.
    times = tmp_path / "times.csv"
    times.write_text("student_id,time\nbob,2027-03-02 10:00\n")
    assert main([*command, "--times", str(times)]) == 0
    said = capsys.readouterr().out
    assert "~ bob  2027-03-02 10:00, 1 day late\n" in said
    assert "Late, nobody knows" not in said
    bob = counting(course)["bob"]
    assert (bob.share, bob.late_days, bob.late_unknown) == (0.9, 1, False)
    assert collect(course, path).again == 5
    assert counting(course)["bob"].late_days == 1
    times.write_text("student_id,time\nbobb,2027-03-02 10:00\n")
    assert main([*command, "--times", str(times)]) == 2
    assert "times.csv, line 2: the student must be one of" in (said := capsys.readouterr().err)
    assert "got 'bobb'. Did you mean 'bob'" in said
    (noted,) = (one for one in trail.read(course.folder) if one["what"] == "time")
    assert (noted["student"], noted["handed_in"]) == ("bob", "2027-03-02T10:00:00+01:00")


def test_a_file_that_is_called_as_moodle_would_is_its_owners_in_canvas(course, tmp_path):
    name = "astromevemaria_103_9004_x-Ada Lovelace_101_assignsubmission_file_week-01.ipynb"
    collect(course, put(tmp_path / "all.zip", zipped((name, notebook("eve's")), time=DOWNLOADED)))
    assert texts(course, "eve") == ["eve's"]


def test_what_came_in_time_counts_before_what_is_late_by_a_time_unknown(course, tmp_path):
    for number, name in enumerate(("mullerbob_102_1_w.ipynb", "mullerbob_LATE_102_2_w.ipynb")):
        data = zipped((name, notebook(name)), time=DOWNLOADED)
        collect(course, put(tmp_path / f"{number}.zip", data))
    assert not counting(course)["bob"].late_unknown


def test_an_answer_without_a_time_does_not_count_before_a_later_one(course, tmp_path, capsys):
    times = put(tmp_path / "times.csv", b"student_id,time\nbob,2027-03-01 22:30\n")
    command = ["course", "collect", WEEK, "--course", str(course.folder)]
    for number, more in enumerate(([], ["--times", str(times)])):
        path = put(
            tmp_path / f"{number}.zip", zipped((f"mullerbob_102_{number}_w.ipynb", notebook(str(number))))
        )
        assert main([*command, str(path), *more]) == 0
    assert counting(course)["bob"].received
    where = f"submitted/{WEEK}/bob/2027-03-01T21-30-00Z"
    assert f"bob: of 2 submissions, the one in {where} counts\n" in capsys.readouterr().out
    # One that came in a later download without a time counts again.
    collect(course, put(tmp_path / "2.zip", zipped(("mullerbob_102_9_w.ipynb", notebook("2")))))
    assert texts(course, "bob") == ["0", "1", "2"]
    assert counting(course)["bob"].received is None


def test_a_zip_that_knows_no_times_has_its_own_and_a_folder_is_no_canvas(course, source, tmp_path):
    data = zipped(("bob.ipynb", notebook()), ("eve/x.ipynb", notebook()), time=(1980, 1, 1, 0, 0, 0))
    collect(course, put(tmp_path / "all.zip", data, LATE))
    assert counting(course)["bob"].received == LATE
    put(source / "lovelaceada_101_9001_week-01.ipynb", notebook("ada"), LATE)
    put(source / "lovelaceada_101_9002_b.ipynb", notebook("ada"), LATE)
    put(source / "eve.ipynb", notebook("eve"), LATE)
    said = collect(course, source).text
    assert "? lovelaceada_101_9001_week-01: nobody in the roster" in said
    assert counting(course)["eve"].received == LATE


# --- clones -------------------------------------------------------------------------------------------------


def clone(folder, time=IN_TIME):
    put(folder / "sub" / f"{WEEK}.ipynb", notebook("committed"))
    (folder / "out.ipynb").symlink_to("/etc/passwd")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x", time=time)
    return folder


@pytest.mark.parametrize("relative", [False, True])
def test_clones(course, source, relative, monkeypatch):
    made = clone(source / f"{WEEK}-ada")
    marker = source.parent / "marker"
    for key in ("core.fsmonitor", "core.pager", "core.alternateRefsCommand", "gpg.program"):
        git(made, "config", key, f"touch {marker}")
    git(made, "config", "log.showSignature", "true")
    (source / "bob").mkdir()
    git(source / "bob", "init", "-q")
    monkeypatch.chdir(source.parent)
    found = collect(course, "source" if relative else source)
    assert texts(course, "ada") == ["committed"]
    assert kept(course, "ada")[0].receipt["time"] == "2027-02-27T13:00:00+01:00"
    assert "out.ipynb is a link or no file; left out" in found.text
    assert "bob" in found.missing
    assert not marker.exists()


def test_a_commit_dated_before_the_release_is_noted(course, source):
    packs.release(course, WEEK)
    released = datetime.fromisoformat(trail.read(course.folder)[-1]["time"])
    clone(source / "ada", released - timedelta(days=1))
    clone(source / "bob", released + timedelta(days=1))
    assert collect(course, source).text.count("before the assignment was released") == 1
    assert "before the assignment was released" in " ".join(kept(course, "ada")[0].receipt["notes"])


def test_far_years_stop_nobody(course, source):
    clone(source / "ada", datetime(2099, 1, 1, tzinfo=UTC))
    os.utime(put(source / "eve.ipynb", notebook("y")), (2**40, 2**40))
    found = collect(course, source)
    assert (found.new, found.text.count("its time is in the future, 2")) == (2, 2)


# --- hostile ------------------------------------------------------------------------------------------------


def test_names_and_links_lead_nowhere(course, source, tmp_path):
    secret = put(tmp_path / "secret.ipynb", b"the gradebook")
    link = zipfile.ZipInfo("linked.ipynb", (2027, 2, 27, 13, 0, 0))
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    data = zipped(
        ("../../../evil.ipynb", notebook()),
        ("/abs.ipynb", notebook()),
        ("C:\\evil.ipynb", notebook()),
        ("a\\..\\..\\evil.ipynb", notebook()),
        (link, str(secret)),
        ("week-01.ipynb", notebook("mine")),
    )
    put(source / "ada.zip", data)
    (source / "bob.ipynb").symlink_to(secret)
    (source / "eve").symlink_to(tmp_path)
    before = {path for path in tmp_path.rglob("*") if "submitted" not in path.parts}
    said = collect(course, source).text
    assert {path for path in tmp_path.rglob("*") if "submitted" not in path.parts} == before
    assert texts(course, "ada") == ["mine"]
    assert list(counting(course)) == ["ada"]
    assert "! bob.ipynb is a link or no file; left out\n! eve is a link or no file; left out" in said


@pytest.fixture
def small_limits(monkeypatch):
    monkeypatch.setattr(archives, "LARGEST", 2**20)
    monkeypatch.setattr(archives, "MOST_FILES", 8)
    monkeypatch.setattr(handed_in, "_TOTAL", 2 * 2**20)


WHOLE = zipped(("week-01.ipynb", notebook()))
UNREADABLE = {
    "bomb": zipped(("week-01.ipynb", b"0" * 2**21)),
    "many": zipped(*((f"{i}.txt", b"") for i in range(9))),
    "bzip2": zipped(("week-01.ipynb", notebook()), method=zipfile.ZIP_BZIP2),
    "damaged": WHOLE[:-30],
    "encrypted": WHOLE.replace(b"PK\1\2\x14\3\x14\0\0", b"PK\1\2\x14\3\x14\0\1"),
    "empty": b"",
    "cut": b'{"cells": [{"cell_ty',
    "no text": b"\xff\xfe no notebook",
}


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE)
def test_bombs_and_what_is_no_notebook_are_named_and_kept_and_not_graded(course, source, data, small_limits):
    put(source / ("ada.zip" if data.startswith(b"PK") else f"ada/{WEEK}.ipynb"), data)
    put(source / "bob.ipynb", notebook("bob"))
    assert "! ada: no notebook of week-01 that can be read" in collect(course, source).text
    (ada,) = kept(course, "ada")
    assert [path.read_bytes() for path in ada.folder.iterdir() if path.suffix != ".json"] == [data]
    assert list(counting(course)) == ["bob"]
    assert collect(course, source).again == 2


def test_one_students_bombs_stop_nobody_else(course, tmp_path, small_limits):
    large = notebook("0" * 900_000)
    data = zipped(
        ("ada.ipynb", b"0" * 2**21),
        ("bob.ipynb", notebook("bob")),
        ("mel.zip", zipped(*((f"{i}.ipynb", large) for i in range(6)))),
        ("../eve.ipynb", notebook()),
    )
    said = collect(course, put(tmp_path / "class.zip", data)).text
    assert "ada.ipynb must have at most 1 MB" in said
    assert "mel.zip: a submission must hold at most 100 notebooks of 2 MB" in said
    assert texts(course, "bob") == ["bob"]
    assert len(list(kept(course, "mel")[0].folder.glob("*.ipynb"))) == 2


def test_a_receipt_of_the_students_own_is_not_believed(course, source):
    theirs = put(source / "mine.ipynb", notebook(), LATE)
    own = {"student": "bob", "time": "2027-02-20T12:00:00+01:00", "late": False, "notebook": "mine.ipynb"}
    put(source / "receipt.json", json.dumps(own).encode())
    collect(course, theirs, student="bob")
    assert counting(course)["bob"].received == LATE


# --- which notebook, and what is kept -----------------------------------------------------------------------


def filled(course, name, text="mine"):
    """A notebook as it was handed out, in which somebody has written."""
    made = packs.released(course, name).notebook
    cells = [one | {"source": text} if "solution" in str(one) else one for one in made["cells"]]
    return json.dumps(made | {"cells": cells}).encode()


def test_a_notebook_that_was_renamed_is_collected_by_hand_with_its_time_and_label(course, tmp_path):
    data = zipped(("Ada Lovelace_7_assignsubmission_file/week-01.ipynb.txt", notebook("ada")))
    path = put(tmp_path / "moodle.zip", data)
    assert "! Ada Lovelace_7: no notebook of week-01" in collect(course, path).text
    (first,) = kept(course, "ada")
    renamed = (first.folder / "original.txt").rename(first.folder / "original.ipynb")
    assert collect(course, renamed, student="ada").new == 1
    assert counting(course)["ada"].received == first.time
    assert [one.receipt["label"] for one in kept(course, "ada")] == ["Ada Lovelace_7"] * 2
    assert collect(course, path).new == 0


def test_what_was_assigned_by_hand_stays_with_its_student_and_times_reach_it(course, tmp_path):
    path = put(tmp_path / "all.zip", zipped(("nick_9_9001_w.ipynb", notebook()), time=DOWNLOADED))
    assert "? nick_9: nobody" in collect(course, path).text
    (unknown,) = (course.folder / "submitted" / WEEK / "_unknown").glob("*/*/week-01.ipynb")
    collect(course, unknown, student="ada")
    found = collect(course, path, times={"ada": IN_TIME})
    assert [one for one in found.said if one[:1] in "?~"] == ["~ ada  2027-02-27 13:00"]
    assert counting(course)["ada"].received == IN_TIME


def test_of_two_notebooks_the_last_that_was_written_in_is_taken_and_another_by_hand(course, source):
    packs.release(course, WEEK)
    blank = json.dumps(packs.released(course, WEEK).notebook).encode()
    later = IN_TIME.replace(hour=15)
    put(source / "ada" / f"{WEEK}.ipynb", filled(course, WEEK, "first"))
    put(source / "ada" / f"{WEEK} (1).ipynb", filled(course, WEEK, "second"), later)
    put(source / "bob" / f"{WEEK}.ipynb", filled(course, WEEK, "all"))
    put(source / "bob" / f"{WEEK} (1).ipynb", blank, later)
    put(source / "bob" / "scratch.ipynb", notebook("of my own"), later)
    collect(course, source)
    (ada,), (bob,) = kept(course, "ada"), kept(course, "bob")
    assert ada.path.read_bytes() == filled(course, WEEK, "second")
    assert bob.path.read_bytes() == filled(course, WEEK, "all")
    # The other one, by hand; it came when it came, and the last of one time counts.
    collect(course, next(ada.folder.glob("other-*")), student="ada")
    counts = counting(course)["ada"]
    assert counts.path.read_bytes() == filled(course, WEEK, "first")
    assert counts.received == ada.time
    with pytest.raises(ValueError, match="source must be one file of ada, got"):
        collect(course, source, student="ada")


def test_another_assignments_notebook_is_not_graded(course, source):
    packs.release(course, WEEK)
    packs.release(course, "week-02")
    put(source / "ada.ipynb", filled(course, "week-02"))
    put(source / "bob.ipynb", filled(course, WEEK))
    assert "ada.ipynb is the notebook of week-02" in collect(course, source).text
    assert list(counting(course)) == ["bob"]


def test_nothing_is_collected_twice_and_all_is_kept(course, source):
    day = {d: datetime(2027, 3, d, 12, 0, tzinfo=UTC) for d in range(1, 9)}
    for content, when, new in (
        ("first", day[1], 1),
        ("first", day[2], 0),  # the same file, copied anew
        ("second", day[3], 1),
        ("first", day[4], 1),  # handed in once more
    ):
        put(source / "bob.ipynb", notebook(content), when)
        assert collect(course, source).new == new
    assert texts(course, "bob") == ["first", "second", "first"]
    bob = counting(course)["bob"]  # the one in time
    assert (bob.received, bob.late_days, bob.share) == (day[1], 0, 1)


def test_what_counts_of_a_group_and_after_an_extension(course, source):
    late = datetime(2027, 3, 4, 12, 0, tzinfo=UTC)
    put(source / "eve.ipynb", notebook("eve"))
    put(source / "mel.ipynb", notebook("mel"), datetime(2027, 2, 28, tzinfo=UTC))
    put(source / "ada.ipynb", notebook("ada"), late)
    put(source / "bob.ipynb", notebook("bob"), late)
    collect(course, source)
    counts = counting(course)
    assert counts["mel"].students == ("eve", "mel")
    assert (counts["bob"].late_days, counts["bob"].share) == (3, 0.7)
    until = late + timedelta(days=1)
    lateness.extend(course, "bob", WEEK, until, "ill")
    counts = counting(course)
    assert {who: one.late_days for who, one in counts.items()} == {"ada": 3, "bob": 0, "mel": 0}
    assert counts["bob"].due == until


@pytest.mark.parametrize(
    ("hours", "which"),
    [([-72, -24, -48], 1), ([-24, 12], 0), ([12, 36, 15], 2), ([60, 69, 192], 1), ([120, 168, 144], 1)],
)
def test_the_latest_in_time_counts_then_the_last_with_the_fewest_late_days(course, source, hours, which):
    due = course.assignment(WEEK).due
    for number, delay in enumerate(hours):
        path = put(source / "bob.ipynb", notebook(str(number)), due.astimezone(UTC) + timedelta(hours=delay))
        collect(course, path, student="bob")
    assert json.loads(counting(course)["bob"].path.read_bytes())["cells"][0]["source"] == str(which)


def test_an_interrupted_collection_leaves_no_half(course, source, monkeypatch):
    put(source / "bob.ipynb", notebook())
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.rename", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            collect(course, source)
    assert kept(course, "bob") == []
    collect(course, source)
    assert len(kept(course, "bob")) == 1
    assert not list((course.folder / "submitted").rglob(".part-*"))
