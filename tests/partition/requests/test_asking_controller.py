"""Questions to the controller are repeated until they are answered; a broker asks so before it stops."""

from zab.kafka.errors import ErrorCode
from zab.partition.controller.requests import AllocateProducerIds, Answer, ControlledShutdown, CreateTopics
from zab.partition.controller.znodes import TopicPartition
from zab.partition.giving_away import GivingAway
from zab.partition.requests import asking_controller
from zab.partition.requests.asking_controller import AGAIN_MS, NEVER, TIMEOUT_MS, AskingController
from zab.partition.settings.broker_settings import ReplicationSettings


class Rig:
    def __init__(self):
        self.asking = AskingController()
        self.asking.controller_is(1)
        self.answers = []

    def ask(self):
        self.asking.ask(lambda token: AllocateProducerIds(token, 2, 20), self.answers.append)

    def due(self, now=0):
        self.asking.now = now
        return [number for number, _ in self.asking.due()]


def test_a_question_is_asked_once_and_answered_once():
    rig = Rig()
    rig.ask()
    assert rig.due() == [1]
    assert rig.due() == []
    for _ in range(2):
        rig.asking.answer(1, Answer(1))
    assert rig.answers == [Answer(1)]
    assert not rig.asking.is_waiting


def test_it_is_asked_again_when_the_link_breaks_and_when_the_controller_moves():
    rig = Rig()
    rig.ask()
    rig.due()
    rig.asking.lost()
    assert rig.due() == [1]
    rig.asking.controller_is(1)
    assert rig.due() == []
    rig.asking.controller_is(3)
    assert rig.due() == [1]


def test_who_is_not_the_controller_is_asked_again_after_a_pause():
    rig = Rig()
    rig.ask()
    rig.due()
    rig.asking.answer(1, Answer(1, ErrorCode.NOT_CONTROLLER))
    assert rig.due(AGAIN_MS - 1) == []
    assert rig.asking.next_deadline() == AGAIN_MS
    assert rig.due(AGAIN_MS) == [1]
    assert rig.answers == []


def test_a_question_has_its_own_timeout_or_that_of_all():
    rig = Rig()
    rig.asking.ask(lambda token: CreateTopics(token, (), timeout_ms=500), rig.answers.append)
    rig.ask()
    for now, count in ((499, 0), (500, 1), (TIMEOUT_MS - 1, 1), (TIMEOUT_MS, 2)):
        rig.asking.now = now
        rig.asking.end_late()
        assert len(rig.answers) == count
    assert {each.error for each in rig.answers} == {ErrorCode.REQUEST_TIMED_OUT}


def test_too_many_questions_are_told_to_ask_again(monkeypatch):
    monkeypatch.setattr(asking_controller, "QUESTIONS_MAX", 1)
    rig = Rig()
    rig.ask()
    rig.ask()
    rig.asking.end_late()
    assert [each.error for each in rig.answers] == [ErrorCode.REQUEST_TIMED_OUT]


# -------------------------------------------------------------------------------------------------------- giving away


def giving(rig, *, others=True, **settings):
    done = []
    settings = ReplicationSettings(shutdown_tries=2, shutdown_retry_ms=100, **settings)
    one = GivingAway(settings, rig.asking, lambda: (2, 20), lambda: others)
    assert one.next_deadline() == NEVER
    one.begin(lambda: done.append(True))
    one.keep_up(rig.asking.now)
    return one, done


def test_a_broker_stops_once_it_leads_nothing():
    rig = Rig()
    _, done = giving(rig)
    [(number, request)] = rig.asking.due()
    assert request == ControlledShutdown(1, 2, 20)
    assert not done
    rig.asking.answer(number, Answer(number, remaining=()))
    assert done == [True]


def test_it_asks_again_for_what_it_still_leads_and_stops_all_the_same():
    rig = Rig()
    one, done = giving(rig)
    for now in (0, 100, 200):
        rig.asking.now = now
        one.keep_up(now)
        assert not done
        [(number, _)] = rig.asking.due()
        rig.asking.answer(number, Answer(number, remaining=(TopicPartition("t", 0),)))
    assert done == [True]


def test_it_asks_nobody_when_there_is_nobody_or_it_is_not_to():
    for options in ({"others": False}, {"gives_leaders_away": False}):
        rig = Rig()
        _, done = giving(rig, **options)
        assert (done, rig.asking.is_waiting) == ([True], False)
