"""For choosing: tools that change something, only where a condition holds and exactly once."""

from __future__ import annotations

from typing import Any

from benchmarks.success.checks import consulted, holds, key_of, left, tells
from benchmarks.success.task import Scene, task

# ── conditional ───────────────────────────────────────────────────────────────────────────────────


@task("conditional", "choose")
def keep_the_gym() -> Scene:
    visits = {"gym": 9, "swimming pool": 1}
    log: list[str] = []
    cancelled: list[str] = []

    def visits_this_month(membership: str) -> int:
        """Count how often I used a membership this month.

        Args:
            membership: gym or swimming pool
        """
        log.append(key_of(visits, membership, "membership"))
        return visits[log[-1]]

    def cancel_membership(membership: str) -> str:
        """Cancel a membership.

        Args:
            membership: gym or swimming pool
        """
        cancelled.append(key_of(visits, membership, "membership"))
        return "cancelled"

    return Scene(
        [cancel_membership, visits_this_month],
        (
            "if i went to the gym less than 4 times this month, cancel my gym membership. how often did i go?",
        ),
        lambda done: left(cancelled, []) or consulted(log, "gym") or tells(done, 9),
        (
            [
                ("visits_this_month", "gym"),
                ("final_answer", "You went 9 times; it is not cancelled."),
            ],
        ),
    )


@task("conditional", "choose")
def rye_bread_in_the_first_bakery() -> Scene:
    loaves = {"Rosenweg": 5, "Turmgasse": 11}
    log: list[str] = []
    reserved: list[tuple[str, int]] = []

    def rye_loaves_left(bakery: str) -> int:
        """Count the loaves of rye bread that a bakery has left today.

        Args:
            bakery: The street of the bakery
        """
        log.append(key_of(loaves, bakery, "bakery"))
        return loaves[log[-1]]

    def reserve_rye(bakery: str, count: int) -> str:
        """Reserve loaves of rye bread at a bakery.

        Args:
            bakery: The street of the bakery
            count: How many loaves
        """
        reserved.append((key_of(loaves, bakery, "bakery"), count))
        return "reserved"

    return Scene(
        [rye_loaves_left, reserve_rye],
        (
            (
                "If the bakery in Rosenweg has at least 2 loaves of rye bread left, reserve 2 there. "
                "Otherwise reserve 2 at the bakery in Turmgasse."
            ),
        ),
        lambda done: left(reserved, [("Rosenweg", 2)]) or consulted(log, "Rosenweg"),
        (
            [
                ("rye_loaves_left", "Rosenweg"),
                ("reserve_rye", {"bakery": "Rosenweg", "count": 2}),
                (
                    "final_answer",
                    "Rosenweg has 5 loaves left; 2 are reserved there, and none in Turmgasse.",
                ),
            ],
        ),
    )


@task("conditional", "choose")
def copies_are_not_equal() -> Scene:
    checksums = {"anna": "a41f09", "bela": "77bc2e"}
    log: list[str] = []
    deleted: list[str] = []

    def checksum(file: str, server: str) -> str:
        """Compute the checksum of a file on a server; equal files have equal checksums.

        Args:
            file: The file's name
            server: The server's name
        """
        key_of(["photos.zip"], file, "file")
        log.append(key_of(checksums, server, "server"))
        return checksums[log[-1]]

    def delete_file(file: str, server: str) -> str:
        """Delete a file on a server.

        Args:
            file: The file's name
            server: The server's name
        """
        key_of(["photos.zip"], file, "file")
        deleted.append(key_of(checksums, server, "server"))
        return "deleted"

    return Scene(
        [checksum, delete_file],
        (
            (
                "Compare the checksums of photos.zip on the servers anna and bela. Only if they are the same, "
                "delete the file on bela."
            ),
        ),
        lambda done: left(deleted, []) or consulted(log, *checksums),
        (
            [
                ("checksum", {"file": "photos.zip", "server": "anna"}),
                ("checksum", {"file": "photos.zip", "server": "bela"}),
                ("final_answer", "They differ, so nothing is deleted."),
            ],
        ),
    )


# ── exactly once ──────────────────────────────────────────────────────────────────────────────────


@task("exactly once", "choose")
def refund_an_order() -> Scene:
    orders = {
        "7730": {"customer": "Adler", "paid_euros": 18.5},
        "7731": {"customer": "Moreau", "paid_euros": 42.9},
    }
    refunds: list[tuple[str, float]] = []

    def get_order(order: str) -> dict[str, Any]:
        """Look up an order: its customer and what was paid.

        Args:
            order: The order's number
        """
        return orders[key_of(orders, order, "order")]

    def refund(order: str, euros: float) -> str:
        """Pay money back to the customer of an order.

        Args:
            order: The order's number
            euros: How much is paid back
        """
        refunds.append((key_of(orders, order, "order"), float(euros)))
        return "ok"

    return Scene(
        [get_order, refund],
        ("Please refund the full amount that was paid for order 7731.",),
        lambda done: left(refunds, [("7731", 42.9)]),
        (
            [
                ("get_order", "7731"),
                ("refund", {"order": "7731", "euros": 42.9}),
                ("final_answer", "42.90 euros were refunded for order 7731."),
            ],
        ),
    )


@task("exactly once", "choose")
def add_the_new_boxes() -> Scene:
    stock = {"pipette tips": 31, "gloves": 12}
    added: list[tuple[str, int]] = []

    def add_boxes(item: str, count: int) -> str:
        """Add boxes that arrived to the inventory of the lab.

        Args:
            item: pipette tips or gloves
            count: How many boxes arrived
        """
        item = key_of(stock, item, "item")
        added.append((item, count))
        stock[item] += count
        return "the inventory is updated"

    def boxes_in_stock(item: str) -> int:
        """Count the boxes of an item in the inventory of the lab.

        Args:
            item: pipette tips or gloves
        """
        return stock[key_of(stock, item, "item")]

    return Scene(
        [boxes_in_stock, add_boxes],
        (
            (
                "24 boxes of pipette tips arrived. Add them to the inventory, and tell me how many boxes of "
                "pipette tips there are then."
            ),
        ),
        lambda done: left(added, [("pipette tips", 24)]) or tells(done, 55),
        (
            [
                ("add_boxes", {"item": "pipette tips", "count": 24}),
                ("boxes_in_stock", "pipette tips"),
                ("final_answer", "There are 55 boxes of pipette tips now."),
            ],
        ),
    )


@task("exactly once", "choose")
def submit_one_training_job() -> Scene:
    jobs: list[tuple[str, int]] = []

    def submit_job(dataset: str, epochs: int) -> str:
        """Submit a job that trains the classifier on the cluster.

        Args:
            dataset: The dataset's name
            epochs: For how many epochs it trains
        """
        jobs.append((key_of(["leaves", "flowers"], dataset, "dataset"), epochs))
        return f"the job has the id K{57 + len(jobs)}"

    def job_status(job: str) -> str:
        """Say whether a job on the cluster waits, runs or is finished.

        Args:
            job: The job's id
        """
        key_of([f"K{58 + each}" for each in range(len(jobs))], job, "job")
        return "it waits in the queue"

    return Scene(
        [submit_job, job_status],
        (
            (
                "Submit a job that trains on the dataset leaves for 30 epochs, and give me the id of the job "
                "and its status."
            ),
        ),
        lambda done: left(jobs, [("leaves", 30)]) or holds(done, "K58"),
        (
            [
                ("submit_job", {"dataset": "leaves", "epochs": 30}),
                ("job_status", "K58"),
                ("final_answer", "The job K58 waits in the queue."),
            ],
        ),
    )
