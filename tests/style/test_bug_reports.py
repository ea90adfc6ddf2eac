# SPDX-License-Identifier: Apache-2.0
"""Goal: every reported bug that could be ours has a test that names it.

Method: the reports' ids, by section, are looked for in the files under tests/, each literally. What
doesn't apply or isn't built stands here with its reason, and may not be named by a test as well.
"""
import os
import re

import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REPORTS = {1: 20, 2: 12, 3: 23, 4: 14, 5: 15, 6: 12, 8: 12, 9: 9, 11: 12}  # section: how many
DOES_NOT_APPLY = {
    "O3-04": "there is no USRBIO store yet, so nothing of it can stay behind",
    "O9-05": "no number that a client reports reaches a counter: they only grow, by the daemon",
}
NOT_BUILT_YET = {}
ID = re.compile(r"\bO\d{1,2}-\d{2}\b")


def reports():
    return [f"O{section}-{number:02d}"
            for section, count in REPORTS.items() for number in range(1, count + 1)]


def named():
    """Each id with the files that name it."""
    found = {}
    for folder, folders, files in os.walk(TESTS):
        folders[:] = [name for name in folders if name not in ("style", "__pycache__")]
        for name in files:
            if not name.endswith((".cc", ".h", ".c", ".py", ".sh", ".txt")):
                continue
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as file:
                for report in ID.findall(file.read()):
                    found.setdefault(report, set()).add(os.path.relpath(path, TESTS))
    return found


def test_every_report_is_named_by_a_test():
    known = set(named()) | set(DOES_NOT_APPLY) | set(NOT_BUILT_YET)
    missing = [report for report in reports() if report not in known]
    assert not missing, "named by no file under tests/: " + " ".join(missing)


def test_what_is_said_not_to_apply_is_a_report_that_no_test_names():
    others = set(DOES_NOT_APPLY) | set(NOT_BUILT_YET)
    assert not others - set(reports())
    assert not others & set(named())


def test_an_id_is_taken_literally():
    assert ID.findall("O1-01 to O1-20, O1-1, XO1-02, O11-120") == ["O1-01", "O1-20"]


@pytest.mark.parametrize("report, reason", DOES_NOT_APPLY.items())
def test_what_does_not_apply_has_its_reason(report, reason):
    assert len(reason) > 20, report
