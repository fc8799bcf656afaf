"""A benchmark that misses its budget says which one, and fails. What it measures is for its reader."""

from benchmarks._budgets import Budget, verdict


def test_a_missed_budget_is_named_and_is_an_exit_status(capsys):
    assert verdict([Budget("first paint", 1.5, 1.5)]) == 0
    assert capsys.readouterr().err == ""
    assert verdict([Budget("first paint", 1.2, 1.5), Budget("requests a minute", 12, 10.0)]) == 1
    assert capsys.readouterr().err == "budget missed: requests a minute: 12.00, promised at most 10\n"
    assert verdict([Budget("nothing measured", float("nan"), 1.0)]) == 1
