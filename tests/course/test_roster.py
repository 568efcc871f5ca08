"""Lists of students as platforms export them, and what importing one changes."""

import pytest
from small_course import ROSTER, write_course

from ppobook.cli import main
from ppobook.course import roster
from ppobook.course.roster import Student

CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,week-01 (55)
    Points Possible,,,,,10
"Lovelace, Ada",101,S-1,ada,Tutorial A,
"Müller, Bob",102,S-2,bob,Tutorial B,
"Student, Test",999,,,,
"""
MOODLE = """\
First name,Last name,ID number,Email address,Groups
Ada,Lovelace,ada,ada@uni.example,A
Bob,Müller,bob,bob@uni.example,
"""
GRADING = (
    "Identifier,Full name,Username\nParticipant 4711,Ada Lovelace,ada\nParticipant 4712,Bob Müller,bob\n"
)


def read(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "list.csv"
    path.write_bytes(text.encode(encoding))
    return roster.read(path)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "cp1252"])
@pytest.mark.parametrize("text", [CANVAS, MOODLE, MOODLE.replace(",", ";"), GRADING])
def test_platforms_and_encodings(tmp_path, text, encoding):
    found = {one.student_id: one.name for one in read(tmp_path, text, encoding)}
    assert found == {"ada": "Ada Lovelace", "bob": "Bob Müller"}


def test_what_each_platform_says(tmp_path):
    assert read(tmp_path, CANVAS)[0] == Student("ada", "Lovelace", "Ada", "", "Tutorial A", "101")
    assert read(tmp_path, MOODLE)[0] == Student("ada", "Lovelace", "Ada", "ada@uni.example", "A", "")
    assert read(tmp_path, GRADING)[1].lms_id == "4712"
    assert [one.student_id for one in read(tmp_path, "student_id\r\nada\r\nbob\r\n")] == ["ada", "bob"]
    # Without ids, the name of the mailbox.
    ada = Student("ada", "Lovelace", "Ada", "ada@u.example")
    assert read(tmp_path, "Name,Email\nAda Lovelace,ada@u.example\n") == (ada,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,age\nada,3\n", "an id in list.csv .* must have .* got ''"),
        ("student_id\n../ada\n", r"must have letters, .* got '../ada'"),
        ("student_id\nada\nbob\nAda\n", "must have 'Ada' once, got it twice"),
    ],
)
def test_what_is_no_list(tmp_path, text, said):
    with pytest.raises(ValueError, match=said):
        read(tmp_path, text)


def test_an_import_shows_what_changes_and_drops_nobody_who_handed_in(tmp_path, capsys):
    write_course(tmp_path)
    (tmp_path / "submitted" / "week-01" / "mel").mkdir(parents=True)
    (tmp_path / "new.csv").write_text("student_id,last_name,first_name\nada,King,Ada\nzoe,Z,Zoe\n")
    words = ["course", "roster", str(tmp_path / "new.csv"), "--course", str(tmp_path)]
    assert main([*words, "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "~ ada  last_name King",
        "+ zoe  Zoe Z",
        "- bob  Bob Müller",
        "- eve  Eve Maria Åström",
        "! mel  Mel O'Neill: not in the list any more, kept with their submissions",
        "3 students; nothing was written",
    ]
    assert (tmp_path / "roster.csv").read_text() == ROSTER
    assert main(words) == 0
    after = roster.load(tmp_path)
    assert [one.student_id for one in after] == ["ada", "zoe", "mel"]
    assert after[0].email == "ada@uni.example"  # what a list leaves out stays
    assert roster.merged(tmp_path, after) == (list(after), [])
