"""Collecting: every source, hostile archives, whose a submission is, and which one counts."""

import io
import json
import os
import stat
import subprocess
import zipfile
from datetime import UTC, datetime

import pytest
from small_course import write_course

from ppobook.course import archives, collecting, packs
from ppobook.course.archives import RefusedError

WEEK = "week-01"
IN_TIME = datetime(2027, 2, 27, 12, 0, tzinfo=UTC)


def notebook(text="x"):
    return json.dumps({"cells": [{"cell_type": "code", "id": "a", "source": text}], "nbformat": 4}).encode()


def zipped(*files, time=(2027, 2, 27, 13, 0, 0)):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            entry = name if isinstance(name, zipfile.ZipInfo) else zipfile.ZipInfo(name, time)
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def put(path, content, time=IN_TIME):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (time.timestamp(), time.timestamp()))
    return path


@pytest.fixture
def course(tmp_path):
    return write_course(tmp_path / "course")


@pytest.fixture
def source(tmp_path):
    (tmp_path / "source").mkdir()
    return tmp_path / "source"


def collect(course, source, **options):
    return collecting.collect(course, WEEK, source, progress=False, **options)


def receipts(course, student):
    return [one.receipt for one in collecting.kept(course, WEEK, student)]


def text(course, student):
    return [
        json.loads(one.path.read_bytes())["cells"][0]["source"]
        for one in collecting.kept(course, WEEK, student)
    ]


# --- sources ------------------------------------------------------------------------------------------------


def test_a_folder_of_zips_notebooks_and_folders(course, source):
    put(source / "ada.zip", zipped((f"deep/er/{WEEK}.ipynb", notebook("ada")), ("__MACOSX/._x.ipynb", b"?")))
    put(source / f"BOB_{WEEK}.ipynb", notebook("bob"))
    put(source / "eve" / "work" / f"{WEEK}.ipynb", notebook("eve"))
    put(source / "eve" / ".ipynb_checkpoints" / "w-checkpoint.ipynb", notebook("old"))
    put(source / "notes.txt", b"?")
    found = collect(course, source)
    assert {who for who, *_ in found.new} == {"ada", "bob", "eve"}
    assert [one.label for one in found.unknown] == ["notes"]
    # mel is in eve's group.
    assert found.missing == []
    assert text(course, "ada") + text(course, "bob") + text(course, "eve") == ["ada", "bob", "eve"]
    (receipt,) = receipts(course, "ada")
    assert receipt["time"] == "2027-02-27T13:00:00+01:00"
    assert receipt["late_days"] == 0
    assert receipt["sha256"]
    assert receipt["stamp"] == "2027-02-27T12-00-00Z"
    folder = course.folder / "submitted" / WEEK / "ada" / "2027-02-27T12-00-00Z"
    assert sorted(path.name for path in folder.iterdir()) == ["original.zip", "receipt.json", f"{WEEK}.ipynb"]


def test_moodle(course, tmp_path):
    data = zipped(
        ("Ada Lovelace_4711_assignsubmission_file_/week-01.ipynb", notebook("ada")),
        ("Bob Müller_4712_assignsubmission_file_mine.zip", zipped(("w.ipynb", notebook("bob")))),
        ("Eve Maria Astrom_102_assignsubmission_file_/", b""),
        ("Eve Maria Astrom_102_assignsubmission_onlinetext_/onlinetext.html", b"<p>"),
        ("Eve Maria Astrom_102_assignsubmission_file_/a b.ipynb", notebook("eve")),
        ("Participant 104_5_assignsubmission_file_/x.ipynb", notebook("mel")),
        ("Nobody Known_101_assignsubmission_file_/x.ipynb", notebook("?")),
        time=(2027, 3, 2, 9, 0, 0),
    )
    found = collect(course, put(tmp_path / "moodle.zip", data))
    assert {who for who, *_ in found.new} == {"ada", "bob", "eve", "mel"}
    assert text(course, "eve") == ["eve"]
    # Its zips have the time of the submission; a name counts more than a number.
    assert receipts(course, "bob")[0]["late_days"] == 1
    assert receipts(course, "ada")[0]["late_days"] == 0  # extended
    assert [one.label for one in found.unknown] == ["Nobody Known_101"]
    assert list((course.folder / "submitted" / WEEK / "_unknown").glob("Nobody_Known_101/*/receipt.json"))


def test_canvas(course, tmp_path):
    data = zipped(
        ("lovelaceada_101_9001_week-01.ipynb", notebook("old")),
        ("lovelaceada_101_9002_week-01-1.ipynb", notebook("new")),
        ("mullerbob_LATE_102_9003_week-01.ipynb", notebook("bob")),
        ("astromevemaria_103_9004_work.zip", zipped(("x.ipynb", notebook("eve")))),
        ("bobmuller_104_9005_week-01.ipynb", notebook("whose?")),
        time=(2027, 3, 3, 23, 0, 0),
    )
    found = collect(course, put(tmp_path / "submissions.zip", data))
    assert {who for who, *_ in found.new} == {"ada", "bob", "eve"}
    assert text(course, "ada") == ["new"]
    assert "there are 2 notebooks; week-01-1.ipynb was taken" in receipts(course, "ada")[0]["notes"]
    assert receipts(course, "eve")[0]["late_days"] == 0  # not LATE, whenever it was downloaded
    assert receipts(course, "bob")[0]["late_days"] == 2
    assert "--times" in receipts(course, "bob")[0]["notes"][0]
    assert len(found.unknown) == 1  # the number is mel's, the name bob's
    again = zipped(("mullerbob_LATE_102_9003_week-01.ipynb", notebook("bob")), time=(2027, 3, 4, 23, 0, 0))
    assert collect(course, put(tmp_path / "later.zip", again)).again == 1


@pytest.mark.parametrize(("encoding", "separator"), [("utf-8-sig", ","), ("utf-16", "\t"), ("latin-1", ";")])
def test_given_times_as_spreadsheets_save_them(course, tmp_path, encoding, separator):
    csv = tmp_path / "times.csv"
    csv.write_bytes(f"student_id{separator}time\nbob{separator}2027-03-01 22:10\n".encode(encoding))
    assert list(collecting.read_times(csv, course)) == ["bob"]
    csv.write_bytes(f"student_id{separator}time\nbobb{separator}2027-03-01 22:10\n".encode(encoding))
    with pytest.raises(ValueError, match=r"times.csv, line 2: .*got 'bobb'. Did you mean 'bob'"):
        collecting.read_times(csv, course)


def test_archives_that_are_not_opened_are_named(course, source):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("week-01.ipynb", "{}")
    with zipfile.ZipFile(source / "ada.zip", "w") as archive:
        archive.writestr("inner.zip", inner.getvalue())
    (source / "bob.rar").write_bytes(b"Rar!")
    notes = {who: made.notes for who, made, _ in collect(course, source).new}
    assert notes["ada"][0].startswith("ada.zip has another archive in it, inner.zip: unpack it into a folder")
    assert notes["bob"][0].startswith("bob.rar is no zip: unpack it into a folder")


def test_a_files_name_alone_is_no_canvas(course, source):
    put(source / "lovelaceada_101_9001_week-01.ipynb", notebook("ada"), datetime(2027, 5, 3, tzinfo=UTC))
    collect(course, source)
    receipt = receipts(course, "ada")[0]
    assert receipt["late_days"] > 50
    assert "collect Canvas's zip as it was downloaded" in receipt["notes"][0]


def test_given_times(course, tmp_path):
    csv = tmp_path / "times.csv"
    csv.write_text("student_id,time\nbob,2027-03-02 10:00\n")
    times = collecting.read_times(csv, course)
    data = zipped(("mullerbob_LATE_102_9003_week-01.ipynb", notebook("bob")), time=(2027, 3, 30, 0, 0, 0))
    collect(course, put(tmp_path / "submissions.zip", data), times=times)
    assert receipts(course, "bob")[0]["late_days"] == 1
    csv.write_text("student_id,time\nbob,soon\n")
    with pytest.raises(ValueError, match="line 2: time must be such as 2027-03-01 22:10, got 'soon'"):
        collecting.read_times(csv, course)


def git(folder, *words, when=IN_TIME, content=b""):
    environ = {**os.environ, "GIT_COMMITTER_DATE": when.isoformat(), "GIT_AUTHOR_DATE": when.isoformat()}
    words = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", *words]
    done = subprocess.run(words, cwd=folder, env=environ, check=True, capture_output=True, input=content)
    return done.stdout.decode().strip()


def test_clones(course, source):
    clone = source / f"{WEEK}-ada"
    put(clone / "sub" / f"{WEEK}.ipynb", notebook("committed"))
    (clone / "out.ipynb").symlink_to("/etc/passwd")
    git(clone, "init", "-q")
    git(clone, "add", "-A")
    git(clone, "commit", "-q", "-m", "x")
    put(clone / "sub" / f"{WEEK}.ipynb", notebook("not committed"))
    marker = source.parent / "marker"
    git(clone, "config", "core.fsmonitor", f"touch {marker}")
    git(clone, "config", "log.showSignature", "true")
    git(clone, "config", "gpg.program", f"touch {marker}")
    empty = source / "bob"
    empty.mkdir()
    git(empty, "init", "-q")
    found = collect(course, source)
    assert text(course, "ada") == ["committed"]
    (receipt,) = receipts(course, "ada")
    assert receipt["time"] == "2027-02-27T13:00:00+01:00"
    assert "out.ipynb is a link or no file; left out" in receipt["notes"]
    assert [one.student for one in found.empty] == ["bob"]
    assert not marker.exists()


def repository(folder):
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


def written(folder, kind, content):
    """An object of a repository; `git` checks nothing of it."""
    return git(folder, "hash-object", "-t", kind, "-w", "--stdin", "--literally", content=content)


def committed(folder, tree, seconds=0):
    content = f"tree {tree}\nauthor x <x> 1 +0000\ncommitter x <x> {seconds} +0000\n\nx\n".encode()
    git(folder, "update-ref", "HEAD", written(folder, "commit", content))


def tree(folder, *entries):
    lines = "".join(f"{mode} {kind} {made}\t{name}\n" for mode, kind, made, name in entries)
    return git(folder, "mktree", content=lines.encode())


def test_a_commit_of_a_far_year_stops_nobody(course, source):
    clone = repository(source / "ada")
    blob = written(clone, "blob", notebook())
    committed(clone, tree(clone, ("100644", "blob", blob, f"{WEEK}.ipynb")), 999_999_999_999)
    put(source / "bob.ipynb", notebook())
    os.utime(put(source / "eve.ipynb", notebook("y")), (2**40, 2**40))
    assert sorted(who for who, *_ in collect(course, source).new) == ["ada", "bob", "eve"]
    assert receipts(course, "ada")[0]["time"].startswith("2286-11-20")


def test_a_small_clone_with_endless_names_is_refused(source):
    clone = repository(source / "ada")
    made = tree(clone, ("100644", "blob", written(clone, "blob", b"x"), "x" * 200))
    for _ in range(6):
        made = tree(clone, *(("040000", "tree", made, f"{i}{'y' * 200}") for i in range(9)))
    committed(clone, made)
    with pytest.raises(RefusedError, match="names of all files in the clone must have at most 16 MB"):
        archives.of_clone(clone)


def test_one_large_notebook_under_many_names_is_read_a_few_times(course, source):
    clone = repository(source / "ada")
    blob = written(clone, "blob", notebook("0" * (30 * 2**20)))
    committed(clone, tree(clone, *(("100644", "blob", blob, f"{i}.ipynb") for i in range(9))))
    ((_, made, _),) = collect(course, source, dry_run=True).new
    assert len(made.notebooks) == 4
    assert "a submission must hold at most 128 MB of notebooks, got more" in made.notes


@pytest.mark.parametrize("how", ["commondir", "alternates", "links"])
def test_a_clone_that_borrows_anothers_commits_is_refused(course, source, how):
    other = repository(source / "bob") / ".git"
    blob = written(source / "bob", "blob", notebook("bob's"))
    committed(source / "bob", tree(source / "bob", ("100644", "blob", blob, f"{WEEK}.ipynb")))
    mine = source / "ada" / ".git"
    mine.mkdir(parents=True)
    (mine / "HEAD").write_bytes((other / "HEAD").read_bytes())
    if how == "commondir":
        (mine / "commondir").write_text("../../bob/.git")
    elif how == "links":
        (mine / "objects").symlink_to("../../bob/.git/objects")
        (mine / "refs").symlink_to("../../bob/.git/refs")
    else:
        (mine / "objects" / "info").mkdir(parents=True)
        (mine / "objects" / "info" / "alternates").write_text(f"{other}/objects\n")
        (mine / "refs" / "heads").mkdir(parents=True)
        for head in (other / "refs" / "heads").iterdir():
            (mine / "refs" / "heads" / head.name).write_bytes(head.read_bytes())
    found = collect(course, source)
    (empty,) = found.empty
    assert receipts(course, "ada")[0]["notebook"] is None
    assert text(course, "bob") == ["bob's"]
    assert empty.student == "ada"
    assert empty.notes[0].startswith("the clone must hold its own commits")


def test_names_that_are_no_text_stop_nobody(course, source):
    for name in (b"ada/M\xfcller.ipynb", b"bob_\xfc.ipynb"):
        path = os.path.join(os.fsencode(source), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(notebook())
    assert [who for who, *_ in collect(course, source).new] == ["ada", "bob"]
    assert receipts(course, "ada")[0]["name"] == "ada/M\N{REPLACEMENT CHARACTER}ller.ipynb"


# --- hostile ------------------------------------------------------------------------------------------------


def link(name, target):
    entry = zipfile.ZipInfo(name, (2027, 2, 27, 13, 0, 0))
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry, target


def test_names_and_links_that_lead_out_are_left_out(course, source, tmp_path):
    secret = put(tmp_path / "secret.ipynb", b"the gradebook")
    data = zipped(
        ("../../../evil.ipynb", notebook()),
        ("/abs.ipynb", notebook()),
        ("C:\\evil.ipynb", notebook()),
        ("a\\..\\..\\evil.ipynb", notebook()),
        link("linked.ipynb", str(secret)),
        ("week-01.ipynb", notebook("mine")),
    )
    put(source / "ada.zip", data)
    (source / "bob.ipynb").symlink_to(secret)
    (source / "eve").symlink_to(tmp_path)
    before = {path for path in tmp_path.rglob("*") if "submitted" not in path.parts}
    found = collect(course, source)
    assert {path for path in tmp_path.rglob("*") if "submitted" not in path.parts} == before
    assert [who for who, *_ in found.new] == ["ada"]
    assert text(course, "ada") == ["mine"]
    notes = receipts(course, "ada")[0]["notes"]
    assert sum("leads out of the zip" in one for one in notes) == 4
    assert "linked.ipynb is a link; left out" in notes
    assert [one.split()[0] for one in found.notes] == ["bob.ipynb", "eve"]
    assert "the gradebook" not in "".join(
        path.read_text(errors="replace") for path in (course.folder / "submitted").rglob("*.ipynb")
    )


@pytest.mark.parametrize("bomb", ["ratio", "many", "large", "damaged", "encrypted", "nested", "not a zip"])
def test_bombs_and_damaged_zips_are_kept_and_not_opened(course, source, bomb):
    small = zipped(("week-01.ipynb", notebook()))
    data = {
        "ratio": lambda: zipped(("week-01.ipynb", b"0" * 4_000_000)),
        "many": lambda: zipped(*((f"{i}.txt", b"") for i in range(2100))),
        "large": lambda: zipped(*((f"{i}.ipynb", os.urandom(1) + b"01" * 500) for i in range(3))),
        "damaged": lambda: small[:-30],
        "encrypted": lambda: small.replace(
            b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01"
        ),
        "nested": lambda: zipped(("in.zip", zipped(("week-01.ipynb", notebook())))),
        "not a zip": lambda: b"hello",
    }[bomb]()
    put(source / "ada.zip", data)
    put(source / "bob.ipynb", notebook("bob"))
    if bomb == "large":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(archives, "STUDENT", archives.Limits(total=2000))
            patch.setattr(archives.of_zip, "__defaults__", (archives.STUDENT,))
            found = collect(course, source)
    else:
        found = collect(course, source)
    assert [one.student for one in found.empty] == ["ada"]
    assert found.empty[0].notes or bomb == "nested"
    assert text(course, "bob") == ["bob"]
    (kept,) = collecting.kept(course, WEEK, "ada")
    assert kept.path is None
    assert (kept.folder / "original.zip").read_bytes() == data
    assert [one.by for one in collecting.counting(course, WEEK)] == ["bob"]


def test_a_bomb_in_the_zip_of_a_class_stops_nobody_else(course, tmp_path):
    data = zipped(
        ("ada.ipynb", b"0" * 4_000_000), ("bob.ipynb", notebook("bob")), ("../eve.ipynb", notebook())
    )
    found = collect(course, put(tmp_path / "class.zip", data))
    assert [one.student for one in found.empty] == ["ada"]
    assert "grows" in found.empty[0].notes[0]
    assert text(course, "bob") == ["bob"]
    assert "leads out" in found.notes[0]


def test_what_a_zip_says_of_its_size_may_be_a_lie():
    data = bytearray(zipped(("x.ipynb", b"0" * 5000)))
    at = data.index(b"PK\x01\x02") + 24
    data[at : at + 4] = (10).to_bytes(4, "little")
    source = archives.of_zip(bytes(data), UTC)
    with pytest.raises(RefusedError):
        source.files[0].read()


# --- which notebook, and what is kept -----------------------------------------------------------------------


def test_two_notebooks_and_wrong_names(course, source):
    packs.release(course, WEEK)
    mine = json.dumps(packs.released(course, WEEK).notebook).encode()
    put(source / "ada.zip", zipped(("a.ipynb", notebook("a" * 90_000)), ("b.ipynb", mine)))
    put(source / "bob.zip", zipped(("other.ipynb", mine), ("week-01.ipynb", notebook("named"))))
    put(source / "mel_final_version2.ipynb", mine)
    put(source / "eve.ipynb", b"\xff\xfe no notebook")
    collect(course, source)
    assert receipts(course, "ada")[0]["notes"] == ["there are 2 notebooks; b.ipynb was taken"]
    assert text(course, "bob") == ["named"]
    folder = collecting.kept(course, WEEK, "bob")[0].folder
    assert (folder / "other-1.ipynb").read_bytes() == mine
    assert receipts(course, "mel")[0]["notes"] == [
        "the notebook is called mel_final_version2.ipynb and not week-01.ipynb"
    ]
    (eve,) = collecting.kept(course, WEEK, "eve")
    assert eve.path is None
    assert (eve.folder / "other-1.ipynb").read_bytes() == b"\xff\xfe no notebook"


def filled(course, name, text="mine"):
    """A notebook as it was handed out, in which somebody has written."""
    made = packs.released(course, name).notebook
    cells = [one | {"source": text} if "solution" in str(one) else one for one in made["cells"]]
    return json.dumps(made | {"cells": cells}).encode()


@pytest.mark.parametrize("content", [b"", b'{"cells": [{"cell_ty', b"{}", b"[]"])
def test_what_is_no_notebook_is_named_and_not_graded(course, source, content):
    put(source / "ada" / f"{WEEK}.ipynb", content)
    found = collect(course, source)
    assert [made.label for made in found.empty] == ["ada"]
    assert "can't be read" in receipts(course, "ada")[0]["notes"][0]
    assert collecting.counting(course, WEEK) == []
    assert collect(course, source).again == 1


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
    (ada,), (bob,) = collecting.kept(course, WEEK, "ada"), collecting.kept(course, WEEK, "bob")
    assert ada.path.read_bytes() == filled(course, WEEK, "second")
    assert bob.path.read_bytes() == filled(course, WEEK, "all")
    # The other one, by hand; it came when it came, and the last of one time counts.
    collect(course, next(ada.folder.glob("other-*")), student="ada")
    counts = {one.by: one for one in collecting.counting(course, WEEK)}
    assert counts["ada"].path.read_bytes() == filled(course, WEEK, "first")
    assert counts["ada"].received == ada.time
    assert collect(course, source).again == 2
    with pytest.raises(ValueError, match="Did you mean 'ada'"):
        collect(course, ada.path, student="adaa")
    with pytest.raises(ValueError, match="one file of ada, got the folder"):
        collect(course, source, student="ada")


def test_another_assignments_notebooks_are_not_graded(course, source):
    packs.release(course, WEEK)
    packs.release(course, "week-02")
    put(source / "ada.ipynb", filled(course, "week-02"))
    with pytest.raises(ValueError, match="must hold notebooks of week-01, got those of week-02"):
        collect(course, source)
    assert not (course.folder / "submitted").exists()
    put(source / "bob.ipynb", filled(course, WEEK))
    found = collect(course, source)
    assert [made.label for made in found.empty] == ["ada"]
    assert receipts(course, "ada")[0]["notes"] == ["ada.ipynb is the notebook of week-02"]
    assert [one.by for one in collecting.counting(course, WEEK)] == ["bob"]


def test_nothing_is_collected_twice_and_all_is_kept(course, source):
    day = {d: datetime(2027, 3, d, 12, 0, tzinfo=UTC) for d in range(1, 9)}
    first = put(source / "bob.ipynb", notebook("first"), day[1])
    assert len(collect(course, source).new) == 1
    assert (lambda found: (found.new, found.again))(collect(course, source)) == ([], 1)
    put(first, notebook("first"), day[2])  # the same file, copied anew
    assert collect(course, source).again == 1
    put(first, notebook("second"), day[3])
    assert len(collect(course, source).new) == 1
    put(first, notebook("first"), day[4])  # handed in once more
    assert len(collect(course, source).new) == 1
    assert text(course, "bob") == ["first", "second", "first"]
    assert [one["late_days"] for one in receipts(course, "bob")] == [0, 2, 3]
    (counts,) = collecting.counting(course, WEEK)
    # The one in time.
    assert (counts.by, counts.late_days, counts.share) == ("bob", 0, 1)
    assert counts.received == day[1]


def test_a_dry_run_writes_nothing(course, source):
    put(source / "bob.ipynb", notebook())
    found = collect(course, source, dry_run=True)
    assert [who for who, *_ in found.new] == ["bob"]
    assert [one.student_id for one in found.missing] == ["ada", "eve", "mel"]
    assert not (course.folder / "submitted").exists()


def test_what_counts_of_a_group_and_after_an_extension(course, source):
    late = datetime(2027, 3, 4, 12, 0, tzinfo=UTC)
    put(source / "eve.ipynb", notebook("eve"), IN_TIME)
    put(source / "mel.ipynb", notebook("mel"), datetime(2027, 2, 28, tzinfo=UTC))
    put(source / "ada.ipynb", notebook("ada"), late)
    put(source / "bob.ipynb", notebook("bob"), late)
    collect(course, source)
    counts = {one.students: one for one in collecting.counting(course, WEEK)}
    assert counts["eve", "mel"].by == "mel"
    assert counts[("ada",)].late_days == 0
    assert (counts[("bob",)].late_days, counts[("bob",)].share) == (3, 0.7)
    again = write_course(course.folder, ("student: ada", "student: bob"))
    counts = {one.by: one.late_days for one in collecting.counting(again, WEEK)}
    assert (counts["ada"], counts["bob"]) == (3, 0)


def test_an_interrupted_collection_leaves_no_half(course, source):
    put(source / "bob.ipynb", notebook())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pathlib.Path.rename", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            collect(course, source)
    assert collecting.kept(course, WEEK, "bob") == []
    collect(course, source)
    assert len(collecting.kept(course, WEEK, "bob")) == 1
    assert not list((course.folder / "submitted").rglob(".part-*"))


def test_what_can_not_be_collected(course, source, tmp_path):
    with pytest.raises(FileNotFoundError, match="source must be a folder or a zip"):
        collect(course, tmp_path / "nowhere")
    with pytest.raises(ValueError, match="with no file in it"):
        collect(course, source)
    with pytest.raises(ValueError, match=r"source 'class.zip': the zip must be whole"):
        collect(course, put(tmp_path / "class.zip", b"PK"))
    with pytest.raises(ValueError, match="Did you mean 'week-01'"):
        collecting.collect(course, "week-1", source)
    (course.folder / "roster.csv").unlink()
    with pytest.raises(ValueError, match="`ppobook course roster FILE` imports them"):
        collect(course, source)
