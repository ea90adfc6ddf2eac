# SPDX-License-Identifier: Apache-2.0
"""Goal: who sets lookup_us too low for his machine is told so, and how often it has cost a hit.

Method: LateAnswers over questions that the test answers; one real daemon that is stopped while it
is asked.
"""
import pytest
from linker_scene import PAGES, Engine, eight_keys, wait_until

from kvsidecar.sglang import linker_question
from kvsidecar.sglang.linker_late import AGAIN, WATCHED_MAX, LateAnswers


class Question:
    """As linker_question's. Answered with so many pages, or a failure."""

    failure = None

    def __init__(self):
        self.finished, self.pages = False, 0

    def answer(self, pages=4, failure=None):
        self.finished, self.pages, self.failure = True, pages, failure

    def lengths(self):
        return list(range(1, self.pages + 1))


@pytest.fixture
def late():
    return LateAnswers()


def asked(late, count, **answer):
    """Questions whose lookup is over, and then they are answered."""
    questions = [Question() for _ in range(count)]
    for question in questions:
        late.asked(question)
        question.answer(**answer)
    late.look()


def test_an_answer_that_comes_after_its_lookup_is_told_with_the_remedy(late, caplog):
    question = Question()
    late.asked(question)
    late.look()
    assert caplog.messages == [], "it hasn't come"
    question.answer()
    late.look()
    late.look()
    assert len(caplog.messages) == 1 and late.count == 1
    assert "came after lookup_us in 1 of 1 lookups" in caplog.text
    assert "raise lookup_us and idle_lookup_us (100000 on a busy machine)" in caplog.text


def test_it_is_told_again_when_there_are_ten_times_as_many(late, caplog):
    for _ in range(AGAIN - 1):
        asked(late, 1)
    assert len(caplog.messages) == 1
    asked(late, 1)
    assert len(caplog.messages) == 2
    assert f"in {AGAIN} of {AGAIN} lookups" in caplog.messages[1]
    asked(late, WATCHED_MAX)
    assert len(caplog.messages) == 2


def test_answers_in_time_count_among_the_lookups_only(late, caplog):
    for _ in range(3):
        question = Question()
        question.answer()
        late.asked(question)
    late.look()
    assert caplog.messages == [] and late.count == 0
    asked(late, 1)
    assert "in 1 of 4 lookups" in caplog.text


@pytest.mark.parametrize("answer", [
    {"pages": 0}, {"failure": ("TIMEOUT", "")}], ids=["nothing is stored", "it has failed"])
def test_an_answer_that_would_have_saved_nothing_doesnt_count(late, caplog, answer):
    asked(late, 1, **answer)
    assert caplog.messages == [] and late.count == 0


def test_an_answer_that_a_later_lookup_has_had_doesnt_count(late, caplog):
    question, other = Question(), Question()
    late.asked(question)
    late.asked(other)
    question.answer()
    other.answer()
    late.served(question)
    late.look()
    assert late.count == 1


def test_a_question_that_was_dropped_isnt_kept(late, caplog):
    late.asked(Question())
    late.look()
    assert caplog.messages == [] and late.count == 0


def test_questions_that_nobody_answers_dont_pile_up(late):
    questions = [Question() for _ in range(WATCHED_MAX + 10)]
    for question in questions:
        late.asked(question)
        question.answer()
    late.look()
    assert late.count == WATCHED_MAX


def test_an_engine_tells_of_a_daemon_that_answered_too_late(daemon, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(linker_question, "ANSWER_S", 60)
    with Engine(tmp_path / "model", daemon.socket, lookup_us=1000) as engine:
        engine.fill(1)
        assert engine.offloaded(eight_keys(), PAGES)
        daemon.pause()
        assert engine.lookup(eight_keys()) == []
        daemon.resume()

        def told():
            engine.linker.num_completed_offloads()
            return "came after lookup_us in 1 of 1 lookups" in caplog.text

        wait_until(told)
        assert engine.linker.counts["late_answers"] == 1
        assert engine.lookup(eight_keys()) == list(range(1, 9)), "if SGLang asks again"
