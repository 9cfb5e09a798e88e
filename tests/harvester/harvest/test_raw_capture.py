"""A WARC file is valid after each exchange, whatever happens next."""

import gzip
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from harvester.client.exchange import HttpRequest, RawReply
from harvester.harvest.raw_capture import RawCapture, raw_file
from harvester.harvest.source import MissingAnswerError, open_replay
from harvester.reading.errors import TransportError, TransportKind
from oai.errors import UsageError
from oai.settings import Settings

_RUN = {"run_started": "2024-01-01T00:00:00+00:00", "harvest_id": 1}
_GET = HttpRequest(method="GET", url="http://r.example/oai?verb=Identify", headers=[("User-Agent", "Z")])
_POST = HttpRequest(method="POST", url="http://r.example/oai", body=b"verb=Identify")
_BODY = gzip.compress(bytes(range(256)) * 200)


def _reply(body: bytes = _BODY, cut: TransportError | None = None) -> RawReply:
    headers = [("Content-Type", "text/xml"), ("Content-Encoding", "gzip"), ("Transfer-Encoding", "chunked")]
    return RawReply(status=200, reason="Fine", headers=headers, body=body, cut=cut)


class Kept:
    """A capture around a transport that replays answers."""

    def __init__(self, path: Path, *answers: RawReply | TransportError) -> None:
        self.capture = RawCapture(path)
        self._answers = list(answers)
        self.send = self.capture.around(self._play)

    async def _play(self, _: HttpRequest) -> RawReply:
        answer = self._answers.pop(0)
        if isinstance(answer, TransportError):
            raise answer
        return answer


async def test_an_answer_is_replayed_byte_for_byte(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "a.warc.gz", _reply(), _reply(b"other"))
    await kept.send(_GET)
    kept.capture.note_run(_RUN)
    await kept.send(_POST)
    kept.capture.close()
    replay = open_replay(kept.capture.path)
    found = await replay(_GET)
    assert (found.status, found.reason, found.body, found.cut) == (200, "Fine", _BODY, None)
    assert found.header("Content-Encoding") == "gzip"
    assert found.header("X-Archive-Orig-Transfer-Encoding") == "chunked"
    assert (await replay(_POST)).body == b"other"


async def test_a_reason_phrase_that_is_not_in_ascii_is_kept_escaped(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "a.warc.gz", RawReply(status=200, reason="V pořádku", headers=[], body=b"x"))
    await kept.send(_GET)
    kept.capture.note_run(_RUN)
    kept.capture.close()
    found = await open_replay(kept.capture.path)(_GET)
    assert (found.status, found.reason, found.body) == (200, r"V po\u0159\xe1dku", b"x")


async def test_credentials_are_not_kept(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "a.warc.gz", _reply())
    await kept.send(replace(_GET, headers=[("Authorization", "Basic c2VjcmV0"), ("User-Agent", "Z")]))
    kept.capture.close()
    written = gzip.decompress(kept.capture.path.read_bytes())
    assert (b"User-Agent: Z" in written, b"c2VjcmV0" in written) == (True, False)


async def test_request_and_answer_are_linked_and_stored_as_sent(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "a.warc.gz", _reply())
    await kept.send(_POST)
    kept.capture.close()
    with kept.capture.path.open("rb") as file:
        records = {}
        for record in ArchiveIterator(file, check_digests="raise"):
            records[record.rec_type] = (record.rec_headers, record.http_headers, record.raw_stream.read())
    headers, http, body = records["request"]
    assert (http.protocol, http.statusline, body) == ("POST", "/oai HTTP/1.1", b"verb=Identify")
    assert http.get_header("Host") == "r.example"
    joined = records["response"][0].get_header("WARC-Concurrent-To")
    assert joined == headers.get_header("WARC-Record-ID")


async def test_a_repeated_request_gets_its_answers_in_their_order(tmp_path: Path) -> None:
    broken = TransportError(_GET.url, TransportKind.DISCONNECTED, "the connection was lost")
    kept = Kept(tmp_path / "a.warc.gz", _reply(b"1"), broken, _reply(b"3"))
    kept.capture.note_run(_RUN)
    await kept.send(_GET)
    with pytest.raises(TransportError):
        await kept.send(_GET)
    await kept.send(_GET)
    kept.capture.close()
    replay = open_replay(kept.capture.path)
    assert (await replay(_GET)).body == b"1"
    with pytest.raises(TransportError, match="the connection was lost"):
        await replay(_GET)
    assert [(await replay(_GET)).body for _ in range(2)] == [b"3", b"3"]


async def test_a_truncated_answer_is_replayed_truncated(tmp_path: Path) -> None:
    slow = TransportError(_GET.url, TransportKind.TIMEOUT, "too slow")
    kept = Kept(tmp_path / "a.warc.gz", _reply(b"part", cut=slow))
    kept.capture.note_run(_RUN)
    await kept.send(_GET)
    kept.capture.close()
    found = await open_replay(kept.capture.path)(_GET)
    assert found.body == b"part"
    assert found.cut is not None
    assert found.cut.kind is TransportKind.TIMEOUT


async def test_requests_that_were_not_sent_or_not_answered_are_missing(tmp_path: Path) -> None:
    broken = TransportError(_GET.url, TransportKind.REFUSED, "nobody there")
    kept = Kept(tmp_path / "a.warc.gz", broken)
    kept.capture.note_run(_RUN)
    with pytest.raises(TransportError):
        await kept.send(_GET)
    kept.capture.close()
    replay = open_replay(kept.capture.path)
    with pytest.raises(TransportError, match="nobody there"):
        await replay(_GET)
    with pytest.raises(MissingAnswerError, match=r"received no answer .*nobody there"):
        await replay(_GET)
    with pytest.raises(MissingAnswerError, match=r"POST http://r\.example/oai with 'verb=Identify'"):
        await replay(_POST)


async def test_a_truncated_file_is_read_up_to_its_last_whole_record(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    kept = Kept(path, _reply(b"first" * 50), _reply())
    kept.capture.note_run(_RUN)
    await kept.send(_GET)
    first = path.stat().st_size
    await kept.send(_POST)
    kept.capture.close()
    data = path.read_bytes()
    for size in range(first, len(data), 13):
        path.write_bytes(data[:size])
        replay = open_replay(path)
        assert (await replay(_GET)).body == b"first" * 50
        with pytest.raises(MissingAnswerError):
            await replay(_POST)


async def test_answers_after_damage_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    kept = Kept(path, _reply(b"first"), _reply(b"second"))
    kept.capture.note_run(_RUN)
    await kept.send(_GET)
    first = path.stat().st_size
    await kept.send(_POST)
    kept.capture.close()
    data = bytearray(path.read_bytes())
    data[first + 30] ^= 255
    path.write_bytes(data)
    replay = open_replay(path)
    assert (await replay(_GET)).body == b"first"
    with pytest.raises(MissingAnswerError):
        await replay(_POST)


async def test_only_files_of_the_same_run_are_joined(tmp_path: Path) -> None:
    runs = (_RUN, {**_RUN, "harvest_id": 2}, {**_RUN, "run_started": "2024-01-02T00:00:00+00:00"}, None, _RUN)
    for number, run in enumerate(runs):
        kept = Kept(tmp_path / f"20240103T00000{number}Z.warc.gz", _reply(b"%d" % number))
        if run is not None:
            kept.capture.note_run(run)
        await kept.send(HttpRequest(method="GET", url=f"http://r.example/{number}"))
        kept.capture.close()
    replay = open_replay(tmp_path / "20240103T000004Z.warc.gz")
    assert len(replay.answers) == 2
    assert (await replay(HttpRequest(method="GET", url="http://r.example/0"))).body == b"0"
    with pytest.raises(UsageError, match="before it started its list"):
        open_replay(tmp_path / "20240103T000003Z.warc.gz")


def test_no_file_is_created_without_a_request_and_no_file_is_overwritten(tmp_path: Path) -> None:
    capture = RawCapture(tmp_path / "a.warc.gz")
    capture.close()
    assert not capture.begun
    assert not capture.path.exists()
    capture.path.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        RawCapture(capture.path).note_run(_RUN)


def test_file_names_sort_by_time(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    moments = [datetime(2024, 1, 2, 3, 4, 5, micros, tzinfo=UTC) for micros in (9, 10, 999_999)]
    names = [raw_file(settings, 7, moment).name for moment in moments]
    assert names == sorted(names)
    assert raw_file(settings, 7, moments[0]).parent == tmp_path / "raw" / "7"
