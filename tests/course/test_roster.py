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
GERMAN = "Vorname;Nachname;Matrikelnummer;E-Mail-Adresse\nAda;Lovelace;ada;a@u.example\nBob;Müller;bob;\n"
GRADING = (
    "Identifier,Full name,Username\nParticipant 4711,Ada Lovelace,ada\nParticipant 4712,Bob Müller,bob\n"
)
PLAIN = "student_id\nada\nbob\n"


def read(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "list.csv"
    path.write_bytes(text.encode(encoding))
    return roster.read(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
@pytest.mark.parametrize("text", [CANVAS, MOODLE, GERMAN, GRADING])
def test_platforms_and_encodings(tmp_path, text, encoding):
    ada, bob = read(tmp_path, text, encoding)
    assert (ada.student_id, ada.name) == ("ada", "Ada Lovelace")
    assert (bob.student_id, bob.name) == ("bob", "Bob Müller")


def test_windows_1252_is_no_latin_1(tmp_path):
    assert read(tmp_path, "student_id,last_name\nada,Žižek’\n", "cp1252")[0].last_name == "Žižek’"


def test_what_each_platform_says(tmp_path):
    assert read(tmp_path, CANVAS)[0] == Student("ada", "Lovelace", "Ada", "", "Tutorial A", "101")
    assert read(tmp_path, MOODLE)[0] == Student("ada", "Lovelace", "Ada", "ada@uni.example", "A", "")
    assert read(tmp_path, GRADING)[1].lms_id == "4712"
    assert [one.student_id for one in read(tmp_path, PLAIN.replace("\n", "\r\n"))] == ["ada", "bob"]
    # Without ids, the name of the mailbox.
    assert read(tmp_path, "Name,Email\nAda Lovelace,ada@u.example\n")[0] == Student(
        "ada", "Lovelace", "Ada", "ada@u.example"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "got an empty file"),
        ("name,age\nada,3\n", "must have a column of ids, such as .*, got name, age"),
        ("student_id\n../ada\n", r"line 2: an id must have letters, .* got '../ada'"),
        ("student_id,last_name\n,Lovelace\n", "line 2: Lovelace must have an id, got none"),
        ("student_id\nada\nbob\nAda\n", "line 4: 'Ada' must stand once, and is in line 2 too"),
        ("PK\x03\x04", "save it as CSV"),
    ],
)
def test_what_is_no_list(tmp_path, text, said):
    with pytest.raises(ValueError, match=said):
        read(tmp_path, text)


def test_there_is_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="must be a CSV file"):
        roster.read(tmp_path / "nowhere.csv")


def test_an_import_shows_what_changes_and_drops_nobody_who_handed_in(tmp_path):
    write_course(tmp_path)
    (tmp_path / "submitted" / "week-01" / "mel").mkdir(parents=True)
    new = [Student("ada", "King", "Ada"), Student("zoe", "Z", "Zoe")]
    found = roster.changes(tmp_path, new)
    assert found.lines() == [
        "+ zoe  Zoe Z",
        "~ ada  last_name 'Lovelace' → 'King'",
        "- bob  Bob Müller",
        "- eve  Eve Maria Åström",
        "! mel  Mel O'Neill: not in the list any more, kept because there are submissions",
    ]
    assert [one.student_id for one in found.after] == ["ada", "zoe", "mel"]
    # What a list leaves out stays.
    assert found.after[0].email == "ada@uni.example"
    assert [one.student_id for one in roster.changes(tmp_path, new, drop=True).after] == ["ada", "zoe"]
    roster.write(tmp_path, found.after)
    assert roster.load(tmp_path) == found.after
    assert roster.changes(tmp_path, found.after).lines() == []


def test_of_two_columns_of_ids_the_one_that_the_roster_has_is_taken(tmp_path):
    path = tmp_path / "canvas.csv"
    path.write_text(CANVAS.replace("999,,", "999,,b1946ac9"))
    assert [one.student_id for one in roster.read(path)] == ["ada", "bob"]  # without "Student, Test"
    assert [one.student_id for one in roster.read(path, ["s-1", "S-2", "S-3"])] == ["S-1", "S-2"]


def test_a_full_name_does_not_divide_a_known_name_anew(tmp_path):
    write_course(tmp_path)
    had = [Student("ada", "von der Heide", "Ada"), *roster.load(tmp_path)[1:]]
    roster.write(tmp_path, had)
    path = tmp_path / "worksheet.csv"
    path.write_text("Identifier,Full name,Username\nParticipant 101,Ada von der Heide,ada\n")
    assert roster.changes(tmp_path, roster.read(path)).changed == (
        (had[0], Student("ada", "von der Heide", "Ada", lms_id="101")),
    )


def test_a_list_that_lacks_most_of_the_roster_is_refused(tmp_path, capsys):
    write_course(tmp_path)
    path, course = tmp_path / "logins.csv", ("--course", str(tmp_path))
    path.write_text("student_id\nx1\nx2\nx3\nada\n")
    assert main(["course", "roster", str(path), *course]) == 2
    assert "at least half of the 4 students" in capsys.readouterr().err
    assert (tmp_path / "roster.csv").read_text() == ROSTER
    assert main(["course", "roster", str(path), "--replace", *course]) == 0
    assert len(roster.load(tmp_path)) == 4


def test_the_file_round_trips(tmp_path):
    write_course(tmp_path)
    students = roster.load(tmp_path)
    roster.write(tmp_path, students)
    assert (tmp_path / "roster.csv").read_text() == ROSTER
    assert roster.find(students, "eve").lms_id == "103"
    with pytest.raises(ValueError, match="Did you mean 'eve'"):
        roster.find(students, "evee")
    assert roster.load(tmp_path / "exercises") == ()


def test_a_list_without_students_drops_nobody(tmp_path):
    course = write_course(tmp_path)
    with pytest.raises(
        ValueError, match="the list must have at least one student below its heading, got none"
    ):
        roster.changes(course.folder, read(tmp_path, "student_id,last_name\n"))
    assert len(roster.load(course.folder)) == 4
