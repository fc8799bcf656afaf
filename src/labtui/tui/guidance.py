"""What to do now, in a sentence, where an action finds nothing to act on. Pure, like `view`."""

from __future__ import annotations

from labtui.tui.view import Picture, next_step


def instead_of_runs(picture: Picture) -> str:
    """For a task that plans no runs: its next step, and where the next runs are."""
    task = picture.task
    if task is None:
        return "This lab's edition could not be read, so there is no plan. `labtui labs check` says why."
    sentences = ["This task is done without a run."]
    check = picture.checks.get(task.id)
    if check is not None and check.status == "done":
        sentences.append("Its box is ticked.")
    else:
        sentences.append(next_step(picture))
        if task.questions:
            sentences.append("Press a for its questions.")
    tasks = picture.edition.tasks if picture.edition is not None else ()
    names = [each.id for each in tasks]
    after = next((each for each in tasks[names.index(task.id) + 1 :] if each.runs), None)
    if after is not None:
        sentences.append(f"The next runs are planned by {after.id}; ] goes to the next task.")
    return " ".join(sentence for sentence in sentences if sentence)


def no_run_yet(picture: Picture) -> str:
    """The runs pane before the first run of a task."""
    planned = len(picture.task.runs) if picture.task is not None else 0
    if planned:
        return f"No run of this task yet. It plans {planned}: press s to see the plan."
    return instead_of_runs(picture)
