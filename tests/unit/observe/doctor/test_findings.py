"""Findings of the doctor: the exit code, and names in a sentence."""

from rta_supervisor.observe.doctor import findings


def test_the_first_bad_finding_decides_the_exit_code() -> None:
    """Warnings alone are no failure; of several bad findings the first one counts."""
    warning = findings.warn("memory", "full", "Empty it.")
    assert findings.first_exit_code([findings.ok("server", "fine"), warning]) == 0
    bad = [findings.bad("server", "old", "Upgrade it.", 69), findings.bad("clock", "late", "Set it.")]
    assert findings.first_exit_code([warning, *bad]) == 69
    assert findings.first_exit_code(bad[1:]) == 78


def test_few_names_stand_for_many() -> None:
    """A sentence names three at most, and counts the others."""
    assert findings.name_some(["a", "b", "c"]) == "a, b, c"
    assert findings.name_some([str(number) for number in range(1004)]) == "0, 1, 2 and 1,001 more"
