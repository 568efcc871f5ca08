"""The page for marking, as a server: what is saved, who may ask, and two tabs."""

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up_class import SHEET, graded_class, hand_in, scores_of

from ppobook.course.gradebook import EVERYONE, Decisions, decide
from ppobook.course.marking import Marking, MarkingServer
from ppobook.course.records import text_digest

PART = "hunt-minmax-why"


@pytest.fixture
def marking(tmp_path: Path) -> Marking:
    handed = [
        hand_in(tmp_path, "ada", text="It is **min**, and $a < b$."),
        hand_in(tmp_path, "bob", "eve", late=1, text="It is max."),
        hand_in(tmp_path, "mel", text="It is\nmax."),
        hand_in(tmp_path, "zoe", text=" "),
    ]
    graded_class(tmp_path, *handed)
    return Marking(tmp_path, "secret", {"week-03": (SHEET, handed)})


def answer(marking: Marking, text: str) -> dict[str, Any]:
    (entry,) = [e for e in marking.question("week-03", PART)["entries"] if text in e["html"]]
    return entry


def scores(marking: Marking) -> dict[str, Any]:
    return scores_of(marking.folder, marking.work["week-03"][1])


# --- the rules ----------------------------------------------------------------------------------------------


def test_a_question_its_rubric_and_its_answers_without_names(marking):
    assert marking.questions() == [{"assignment": "week-03", "part": PART, "answers": 3, "marked": 0}]
    found = marking.question("week-03", PART)
    assert "It never comes back." in found["rubric"]
    assert "Which line is wrong?" in found["question"]
    assert [entry["count"] for entry in found["entries"]].count(2) == 1
    assert (found["empty"], found["deleted"]) == (1, 0)
    assert "<strong>min</strong>" in answer(marking, "min")["html"]
    assert not any(name in json.dumps(found) for name in ("ada", "bob", "mel", "Lovelace"))


def test_equal_answers_and_groups_get_the_same_points(marking):
    entry = answer(marking, "max")
    now = marking.mark("week-03", PART, entry["seen"], 2.5, "Look at it again.")
    assert (now["points"], now["comment"], now["marked"], now["count"]) == (2.5, "Look at it again.", True, 2)
    found = scores(marking)
    points = {who: one.parts[PART].points for who, one in found.items()}
    assert points == {"ada": 0, "bob": 2.5, "eve": 2.5, "mel": 2.5, "zoe": 0}
    assert found["eve"].final == pytest.approx(0.9 * 9.5)
    assert (found["eve"].waiting, found["ada"].waiting) == ((), (PART,))
    assert [q["marked"] for q in marking.questions()] == [2]


@pytest.mark.parametrize(("text", "student"), [("min", "ada"), ("max", "eve")])
def test_of_two_tabs_the_later_one_overwrites_nothing_unseen(marking, text, student):
    seen = answer(marking, text)["seen"]
    marking.mark("week-03", PART, seen, 3, "Good.")
    now = marking.mark("week-03", PART, seen, 1, "Bad.")
    assert ([one["points"] for one in now["disagree"]], now["marked"]) == ([3, 1], False)
    assert scores(marking)[student].parts[PART].conflict
    now = marking.mark("week-03", PART, now["seen"], 1, "Bad.")
    assert (now["points"], now["comment"], now["disagree"]) == (1, "Bad.", [])
    assert scores(marking)[student].parts[PART].points == 1


def test_marks_of_two_people_that_disagree_are_both_shown_and_settled_by_another(marking):
    text = "It is **min**, and $a < b$."
    for points in (1, 3):  # as two copies of the folder have them after a merge
        facts = {"points": points, "max": 3, "text": text_digest(text)}
        decide(marking.folder, "week-03", "mark", "ada", PART, **facts)
    entry = answer(marking, "min")
    assert [one["points"] for one in entry["disagree"]] == [1, 3]
    assert (entry["marked"], entry["points"]) == (False, None)
    now = marking.mark("week-03", PART, entry["seen"], 2, "")
    assert (now["disagree"], now["points"], now["marked"]) == ([], 2, True)
    assert len(Decisions(marking.folder, "week-03").marks("ada", PART, text)) == 1


def test_an_answer_that_changed_meanwhile_is_refused_and_waits_again(marking):
    seen = answer(marking, "min")["seen"]
    marking.mark("week-03", PART, seen, 3, "")
    graded_class(marking.folder, hand_in(marking.folder, "ada", text="It is something else."))
    with pytest.raises(ValueError, match="got others by now"):
        marking.mark("week-03", PART, seen, 3, "")
    entry = answer(marking, "something else")
    assert (entry["points"], entry["marked"]) == (None, False)


def test_text_out_of_place_is_shown_and_a_deleted_cell_is_said(marking):
    zoe = hand_in(marking.folder, "zoe", missing=[PART], unclear=["Cell 9:\n\nIt is I."])
    graded_class(marking.folder, zoe)
    found = marking.question("week-03", PART)
    assert (found["empty"], found["deleted"]) == (0, 1)
    entry = answer(marking, "It is I.")
    assert entry["displaced"]
    assert not answer(marking, "min")["displaced"]
    marking.mark("week-03", PART, entry["seen"], 2, "")
    assert scores(marking)["zoe"].parts[PART].points == 2


def test_points_that_were_corrected_are_not_marked_over(marking):
    decide(marking.folder, "week-03", "full", EVERYONE, PART, comment="not clear")
    entry = answer(marking, "min")
    assert (entry["points"], entry["marked"], entry["corrected"]) == (3, True, "not clear")
    with pytest.raises(ValueError, match="were corrected"):
        marking.mark("week-03", PART, entry["seen"], 1, "")


@pytest.mark.parametrize("points", [-1, 3.5, float("nan"), True, "2"])
def test_points_that_are_none_are_refused(marking, points):
    with pytest.raises(ValueError, match="points must be from 0 to 3, got"):
        marking.mark("week-03", PART, answer(marking, "min")["seen"], points, "")


# --- the server ---------------------------------------------------------------------------------------------


@pytest.fixture
def server(marking: Marking) -> Iterator[MarkingServer]:
    with MarkingServer(marking) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server: MarkingServer, path: str, body: Any = None, token: str | None = None) -> tuple[int, Any, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    content = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST" if content else "GET", f"/{token or server.token}/{path}", content)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    is_json = response.headers.get_content_type() == "application/json"
    return response.status, json.loads(text) if is_json else text, response.headers


def test_the_page_and_its_files(server):
    for path, kind in (("", "text/html"), ("page.js", "text/javascript"), ("page.css", "text/css")):
        status, _, headers = ask(server, path)
        assert (status, headers.get_content_type()) == (200, kind)
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe-inline'; script" not in headers["Content-Security-Policy"]
        assert headers["Referrer-Policy"] == "no-referrer"


def test_a_mark_is_saved(server):
    said = ask(server, f"api/question?assignment=week-03&part={PART}")[1]
    entry = next(entry for entry in said["entries"] if "min" in entry["html"])
    body = {"assignment": "week-03", "part": PART, "seen": entry["seen"], "points": 2, "comment": "ü"}
    status, now, _ = ask(server, "api/mark", body)
    assert (status, now["points"], now["comment"]) == (200, 2, "ü")
    assert ask(server, "api/mark", {**body, "points": 9})[0] == 400
    assert ask(server, "api/questions")[1]["questions"][0]["marked"] == 1


@pytest.mark.parametrize("token", ["x", "undefined", "%00"])
def test_without_the_token_nothing_is_shown_or_changed(server, token):
    for path in ("", "api/questions"):
        assert ask(server, path, token=token)[0] == 404
    assert ask(server, "api/mark", {"points": 3}, token=token)[0] == 404
    assert not (server.marking.folder / "marks").exists()


@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", b"\xff", b"0" * 300_000])
def test_what_is_no_mark_is_refused(server, body):
    assert ask(server, "api/mark", body)[0] == 400
