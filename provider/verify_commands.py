"""What `zatva provider verify` does."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from oai.cli import Invocation
from oai.console import Console
from oai.database import open_database
from oai.errors import ExitCode
from provider.holdings.fixity import Checker, Choice, Fault, FileCheck, Finding
from provider.holdings.identifiers import oai_identifier
from provider.indexing.indexer import find_archives

_SHOWN = 20
"""Findings of one file that people are shown; programs get all."""


def verify(invocation: Invocation) -> ExitCode:
    """`provider verify`: read archive files and compare them with the index."""
    arguments, console = invocation.arguments, invocation.console
    choice = Choice(
        files=arguments.files,
        set_spec=arguments.set,
        sample=arguments.sample,
        after=arguments.after,
    )
    elsewhere = _by_name(arguments.search or [])
    totals: Counter[str] = Counter()
    last = arguments.after
    with open_database(invocation.settings) as database, database.session() as session:
        checker = Checker(session=session, choice=choice, elsewhere=elsewhere)
        files = checker.files()
        with console.progress("verifying, files") as advance:
            try:
                for file in checker.check():
                    last = file.number
                    totals += _counted(file)
                    _tell(console, file, invocation.settings.provider.namespace)
                    advance(totals["files"], total=files, note=f"{totals['documents']:,} documents")
            except KeyboardInterrupt:
                console.note(f"to continue, run the same command with --after {last}")
                raise
    console.result({"total": _facts(totals)}, _words(totals))
    return ExitCode.RECORDS_REFUSED if any(totals[fault] for fault in Fault) else ExitCode.DONE


def _by_name(folders: Sequence[Path]) -> dict[str, Path]:
    """Archive files below folders, by the name that they are known again by."""
    return {path.name.removesuffix(".gz"): path for path in find_archives(folders)}


def _counted(file: FileCheck) -> Counter[str]:
    found = Counter({"files": 1, "documents": file.checked, "without_digest": file.without_digest})
    for finding in file.findings:
        found[finding.fault] += 1
    return found


def _tell(console: Console, file: FileCheck, namespace: str) -> None:
    for number, finding in enumerate(file.findings):
        if console.as_json or number < _SHOWN:
            console.result(_as_json(finding, namespace), _in_words(finding))
    if len(file.findings) > _SHOWN and not console.as_json:
        console.result({}, f"  … and {len(file.findings) - _SHOWN:,} more in {file.path}; see --json")


def _as_json(finding: Finding, namespace: str) -> dict[str, Any]:
    facts = asdict(finding)
    key = facts.pop("key")
    return {**facts, "identifier": None if key is None else oai_identifier(namespace, key)}


def _in_words(finding: Finding) -> str:
    if finding.offset is None:
        return f"{finding.fault}: {finding.file} (documents: {finding.documents:,}): {finding.reason}"
    return f"{finding.fault}: {finding.file}, offset {finding.offset}, {finding.url}: {finding.reason}"


def _facts(totals: Counter[str]) -> dict[str, int]:
    return {name: totals[name] for name in ("files", "documents", "without_digest", *Fault)}


def _words(totals: Counter[str]) -> str:
    found = ", ".join(f"{totals[fault]:,} {fault}" for fault in Fault)
    unsure = f" ({totals['without_digest']:,} without a digest: only the length was checked)"
    checked = f"documents {totals['documents']:,}" + (unsure if totals["without_digest"] else "")
    return f"files {totals['files']:,}, {checked}: {found}"
