from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gramwatt.collectors.serving.count import ServerCounts
from gramwatt.collectors.serving.poll import START_TIME, Reading, parse_samples
from gramwatt.collectors.serving.presets import PRESETS, Series, names, servers
from gramwatt.collectors.settings.clock import NS_PER_S

DATA = Path(__file__).parents[2] / "data" / "serving"
OWN = "http://h/m"
START_NS = 1_700_000_000 * NS_PER_S


class NothingMore:
    """The polls of a job of which every reading was taken."""

    def last(self) -> list[Reading]:
        return []


class Counted:
    """A meter's counting of one server, one reading every 5 s."""

    def __init__(self, text: str = OWN, metrics: tuple[str, ...] = ("n_total=image",)) -> None:
        self.notices: list[str] = []
        self._given = servers([text], metrics)
        self._at_ns = START_NS
        self._before: dict[tuple[str, str | None], float] = {}
        """What a meter had counted whose state is lost: its lines are delivered."""
        self.counts = self._new()

    def _new(self) -> ServerCounts:
        return ServerCounts(self._given, self._note, START_NS)

    def _note(self, code: str, text: str) -> None:
        self.notices.append(f"{code}: {text}")

    def answer(self, text: str) -> None:
        wanted = names([*PRESETS.values(), self._given[0].metrics]) | {START_TIME}
        self._take(Reading(0, 0, parse_samples(text, wanted)))

    def value(self, *values: float, **more: float) -> None:
        text = "".join(f'n_total{{a="{n}"}} {value}\n' for n, value in enumerate(values))
        self.answer(text + "".join(f"{name} {value}\n" for name, value in more.items()))

    def silent(self, *, down: bool = False, problem: str = "?") -> None:
        self._take(Reading(0, 0, None, down=down, problem=problem))

    def end(self) -> list[str]:
        """The last reading fails; return what the job's end reports."""
        reports = len(self.notices)
        self.counts.begin(lambda _: NothingMore())  # type: ignore[arg-type,return-value]
        assert list(self.counts.read(lambda mono_ns: mono_ns, last=True)) == []
        return [text.partition(f"{OWN} ")[2] for text in self.notices[reports:]]

    def restart_meter(self, *, state: Any = ...) -> None:
        saved = json.loads(json.dumps(self.counts.state())) if state is ... else state
        if saved is None:
            self._before = self.amounts()
        self.counts = self._new()
        self.counts.resume(saved, self._at_ns)

    def _take(self, reading: Reading) -> None:
        self._at_ns += 5 * NS_PER_S
        self.counts.take(reading, self._at_ns)

    def amounts(self) -> dict[tuple[str, str | None], float]:
        found = dict(self._before)
        for key, amount in self.counts.totals.items():
            found[key] = found.get(key, 0.0) + amount
        return found

    @property
    def images(self) -> float:
        return self.amounts().get(("image", None), 0.0)


DOCUMENTED = {
    "vllm": {
        ("token", "prefill"): 15_000.0,
        ("token", "decode"): 6_500.0,
        ("request", None): 63.0,
        ("service.cached_token", None): 5_000.0,
        ("service.prefill_s", None): 5.0,
        ("service.decode_s", None): 120.0,
    },
    "sglang": {
        ("token", "prefill"): 4_400.0,
        ("token", "decode"): 900.0,
        ("request", None): 12.0,
        ("service.cached_token", None): 1_200.0,
    },
    "tgi": {
        ("token", "prefill"): 1_500.0,
        ("token", "decode"): 420.0,
        ("request", None): 14.0,
        ("service.prefill_s", None): 0.75,
        ("service.decode_s", None): 8.5,
    },
    "triton": {("request", None): 42.0, ("inference", None): 322.0},
}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("preset", DOCUMENTED)
def test_a_server_with_the_documented_text_that_comes_up_within_the_job_is_counted_from_zero(
    preset, named
):
    counted = Counted(f"{OWN}={preset}" if named else OWN, ())
    counted.silent(down=True)
    counted.answer((DATA / f"{preset}.txt").read_text("utf-8").replace(START_TIME, "other"))
    assert counted.amounts() == DOCUMENTED[preset]
    assert counted.notices == []


def test_vllm_without_sources_counts_prompt_tokens_less_cached_ones():
    text = (DATA / "vllm.txt").read_text("utf-8").replace(START_TIME, "other")
    counted = Counted(f"{OWN}=vllm", ())
    counted.silent(down=True)
    counted.answer(text.replace("prompt_tokens_by_source_total", "of_a_later_release"))
    expected = {"token": ("prefill", 15_000.0), "service.cached_token": (None, 5_000.0)}
    for unit, (phase, amount) in expected.items():
        assert counted.amounts()[unit, phase] == amount
    counted.answer(text)  # the better counter appears: the same tokens are not counted again
    assert counted.amounts()["token", "prefill"] == 15_000.0


def test_what_a_server_did_before_the_job_is_not_counted():
    counted = Counted()
    counted.value(100)
    counted.value(130)
    counted.silent()
    counted.value(150)
    assert counted.images == 50
    assert counted.amounts()["service.known_s", None] == 15
    assert counted.notices == [
        f"server-counts: {OWN} was running before: what it did until then is not counted."
    ]


def test_a_counter_that_goes_back_began_anew_and_alone():
    counted = Counted()
    counted.value(100, 100)
    counted.value(110, 105)
    for _ in range(11):
        counted.value(4, 106)  # one of two models was loaded again
    assert counted.images == 10 + 5 + 1
    counted.value(5, 106)
    assert counted.images == 10 + 5 + 1 + 5
    assert [text for text in counted.notices if "restarted its counters" in text]
    assert counted.amounts()["service.known_s", None] == 5 + 11 * 5


def test_a_new_process_is_counted_from_zero_though_it_has_counted_more():
    counted = Counted()
    counted.value(10, **{START_TIME: 1e9})
    counted.value(12, **{START_TIME: 1e9})
    counted.value(50, **{START_TIME: START_NS / NS_PER_S + 9})
    assert counted.images == 2 + 50


def test_a_meter_that_is_replaced_goes_on_from_the_state():
    counted = Counted()
    counted.silent(down=True)
    counted.value(10)
    counted.restart_meter()
    counted.value(25)
    assert counted.images == 25
    counted.restart_meter(state=None)  # delivered meanwhile: nothing is counted twice
    counted.value(31, **{START_TIME: START_NS / NS_PER_S + 3})
    counted.value(33, **{START_TIME: START_NS / NS_PER_S + 3})
    assert counted.images == 25 + 2


def test_a_server_that_never_answers_is_reported_once():
    counted = Counted()
    for _ in range(200):
        counted.silent(down=True)
    assert counted.notices.count(counted.notices[0]) == 80
    assert "could not be read yet: ?" in counted.notices[0]
    assert counted.counts.state()["servers"][0]["values"] == []


def test_two_models_at_one_address_are_two_servers():
    """llama.cpp shows one model of several by the address's query, which no journal has."""
    notices: list[str] = []
    given = servers(["http://h/m?model=a=llamacpp", "http://h/m?model=b=llamacpp"], [])
    counts = ServerCounts(given, lambda _, text: notices.append(text), START_NS)
    for turn in range(8):
        if turn == 4:
            state = counts.state()
            counts = ServerCounts(given, lambda *_: None, START_NS)
            counts.resume(state, START_NS)
        for server, value in enumerate((1000.0 + turn, 10.0 + turn)):
            samples = {Series("llamacpp:tokens_predicted_total"): value}
            counts.take(Reading(server, 0, samples), START_NS + 5 * turn * NS_PER_S + server)
    amounts = counts.totals
    assert amounts["token", "decode"] == 7.0 + 7.0
    assert amounts["service.busy_s", None] == pytest.approx(35.0, abs=1e-6)
    assert notices
    assert "model" not in str(notices)


VLLM = (DATA / "vllm.txt").read_text("utf-8").replace(START_TIME, "other")
UNREAD = "could not be read, so nothing of it is counted"
UNCOUNTED = {
    "nobody listens": (OWN, ["Connection refused"] * 3, [f"{UNREAD}: Connection refused."]),
    "not one of a preset": (
        f"{OWN}=vllm",
        ["Connection refused"],
        [f"{UNREAD}: Connection refused."],
    ),
    "not admitted, then ended": (
        OWN,
        ["it answers HTTP 401", "Connection refused"],
        [f"{UNREAD}: it answers HTTP 401."],
    ),
    "shows nothing known": (
        OWN,
        ["other_total 3\n"],
        ["answers, but has no counter of any preset; `--count-metric NAME=UNIT` names one."],
    ),
    "whole": (OWN, [VLLM, VLLM], []),
    "ended": (OWN, [VLLM, *["Connection refused"] * 9], []),
    "missed twice": (OWN, [VLLM, "it answers HTTP 500", "it answers HTTP 500"], []),
    "answers badly from then on": (
        OWN,
        [VLLM, *["it answers HTTP 500"] * 4],
        [
            "could not be read in the last 20 s (it answers HTTP 500); "
            "what it did since is not counted."
        ],
    ),
    "a counter was renamed": (
        OWN,
        [VLLM.replace("generation_tokens_total", "tokens_out_total")],
        [
            "shows no vllm:generation_tokens_total, so R lacks its token (decode); "
            "`--count-metric NAME=token` takes another counter."
        ],
    ),
    "its times were renamed": (OWN, [VLLM.replace("_time_seconds_sum", "_time_sum")], []),
}


@pytest.mark.parametrize("case", UNCOUNTED)
def test_what_is_not_counted_of_a_server_is_reported_at_the_end_with_its_reason(case):
    text, answers, reports = UNCOUNTED[case]
    counted = Counted(text, ())
    counted.silent(down=True, problem="Connection refused")
    for answer in answers:
        if "\n" in answer:
            counted.answer(answer)
        else:
            counted.silent(down="refused" in answer, problem=answer)
    assert counted.end() == reports


def test_a_counter_of_ones_own_is_missed_at_no_server_or_said():
    for shown, reports in (("image", []), ("other", ["n_total"])):
        counted = Counted(f"{OWN}=vllm", ("n_total=image",))
        counted.silent(down=True)
        counted.answer(VLLM + ("n_total 3\n" if shown == "image" else ""))
        assert [text.split()[2].strip(",") for text in counted.end()] == reports


def test_processes_that_answer_in_turn_are_not_taken_for_restarts():
    for starts in ((), (1e9, 1e9 + 40)):
        counted = Counted()
        for turn in range(40):
            worker = turn % 2
            process = {START_TIME: starts[worker]} if starts else {}
            counted.value(1000 * worker + turn, **process)
        # Without their starts the first step, from one worker to the other, cannot be told.
        assert counted.images == (38 if starts else 1039)
        assert [text for text in counted.notices if "several processes in turn" in text]


def test_a_restart_between_two_readings_is_held_and_is_counted_or_said():
    counted = Counted()
    counted.value(100)
    for value in range(1, 6):
        counted.value(value)
    assert counted.images == 0
    counted.silent(problem="it does not answer in time")
    assert counted.end()[-1] == ("counted less in its last minute than before, which is left out.")
    counted.value(6)  # it was away: a restart, which is counted whole
    assert counted.images == 6


def test_ranks_of_sglang_that_count_the_same_tokens_count_once():
    counted = Counted(f"{OWN}=sglang", ())
    counted.silent(down=True)
    labels = [
        f'dp_rank="{dp}",tp_rank="{tp}",pp_rank="{pp}"'
        for dp, tp in (("0", "0"), ("0", "1"), ("1", "2"))
        for pp in ("0", "1")
    ]
    name = "sglang:realtime_tokens_total"
    for amount in (10, 30):
        counted.answer("".join(f'{name}{{mode="decode",{row}}} {amount}\n' for row in labels))
    assert counted.amounts()["token", "decode"] == 2 * 30


def test_vllm_before_its_sources_counts_prompts_less_hits_that_are_counted_before_them():
    counted = Counted(f"{OWN}=vllm", ())
    counted.silent(down=True)
    for prompts, hits in ((0, 900), (0, 900), (1000, 900), (1000, 1800), (2000, 1800)):
        counted.answer(
            f"vllm:prompt_tokens_total {prompts}\nvllm:prefix_cache_hits_total {hits}\n"
            "vllm:generation_tokens_total 1\n"
        )
        counted.restart_meter()
    assert counted.amounts()["token", "prefill"] == 200
    assert counted.amounts()["service.cached_token", None] == 1800
