"""Tools that change something: only where a condition holds, and exactly once."""

from __future__ import annotations

from benchmarks.success.checks import left, tells, unordered
from benchmarks.success.task import Scene, task

# ── conditional ───────────────────────────────────────────────────────────────────────────────────


@task("conditional", "choose")
def refill_a_low_tank() -> Scene:
    refilled: list[str] = []

    def level_of(tank: str) -> int:
        """Read the level of a tank, in percent.

        Args:
            tank: The tank's name
        """
        return {"north": 12, "south": 85}[tank]

    def refill(tank: str) -> str:
        """Fill up a tank.

        Args:
            tank: The tank's name
        """
        refilled.append(tank)
        return "filled up"

    return Scene(
        [level_of, refill],
        ("Look at the level of the tank north. If it is below 20 percent, refill that tank.",),
        lambda done: left(refilled, ["north"]),
        (
            [
                ("level_of", "north"),
                ("refill", "north"),
                ("final_answer", "It was at 12 and is filled up."),
            ],
        ),
    )


@task("conditional", "choose")
def leave_the_fan_alone() -> Scene:
    read: list[str] = []
    switched: list[str] = []

    def temperature_in(room: str) -> float:
        """Measure the temperature in a room, in degrees Celsius.

        Args:
            room: The room's name
        """
        read.append(room)
        return 21.5

    def switch_on_fan(room: str) -> str:
        """Switch on the fan in a room.

        Args:
            room: The room's name
        """
        switched.append(room)
        return "the fan runs"

    return Scene(
        [temperature_in, switch_on_fan],
        (
            "Switch on the fan in the lab, but only if it is warmer than 26 degrees there. How warm is it?",
        ),
        lambda done: left(switched, []) or left(set(read), {"lab"}) or tells(done, 21.5),
        ([("temperature_in", "lab"), ("final_answer", "It is 21.5 degrees: the fan stays off.")],),
    )


@task("conditional", "report")
def charge_a_weak_robot() -> Scene:
    charged: list[str] = []

    def battery(robot: str) -> int:
        """Read the battery of a robot, in percent.

        Args:
            robot: The robot's name
        """
        return {"Arlo": 76, "Bo": 18}[robot]

    def charge(robot: str) -> str:
        """Send a robot to its charger.

        Args:
            robot: The robot's name
        """
        charged.append(robot)
        return "it is charging"

    return Scene(
        [battery, charge],
        ("Read the battery of the robot Bo. If it has less than 30 percent, charge it.",),
        lambda done: left(charged, ["Bo"]),
        ([("battery", "Bo"), ("charge", "Bo"), ("final_answer", "It had 18 and is charging.")],),
    )


@task("conditional", "report")
def leave_the_queue_alone() -> Scene:
    read: list[str] = []
    emptied: list[str] = []

    def length_of(queue: str) -> int:
        """Count the jobs that wait in a queue.

        Args:
            queue: The queue's name
        """
        read.append(queue)
        return 64

    def empty(queue: str) -> str:
        """Throw away all jobs of a queue.

        Args:
            queue: The queue's name
        """
        emptied.append(queue)
        return "empty now"

    return Scene(
        [length_of, empty],
        ("Empty the queue mail, but only if more than 500 jobs wait in it. How many wait?",),
        lambda done: left(emptied, []) or left(set(read), {"mail"}) or tells(done, 64),
        ([("length_of", "mail"), ("final_answer", "64 jobs wait: it was left alone.")],),
    )


@task("conditional", "report")
def retrain_a_drifting_model() -> Scene:
    retrained: list[str] = []
    approved: list[str] = []

    def drift_of(model: str) -> float:
        """Measure the drift of a deployed model, from 0 to 1.

        Args:
            model: The model's name
        """
        return {"churn": 0.12, "fraud": 0.47}[model]

    def retrain(model: str) -> str:
        """Train a deployed model again on new data.

        Args:
            model: The model's name
        """
        retrained.append(model)
        return "it is being trained"

    def approve(model: str) -> str:
        """Approve a deployed model for another month.

        Args:
            model: The model's name
        """
        approved.append(model)
        return "approved"

    return Scene(
        [drift_of, retrain, approve],
        (
            "Measure the drift of the model churn. If it is above 0.3, retrain the model; otherwise approve it.",
        ),
        lambda done: left(retrained, []) or left(approved, ["churn"]),
        (
            [
                ("drift_of", "churn"),
                ("approve", "churn"),
                ("final_answer", "The drift is 0.12: it is approved."),
            ],
        ),
    )


# ── exactly once ──────────────────────────────────────────────────────────────────────────────────


@task("exactly once", "choose")
def one_transfer() -> Scene:
    sent: list[tuple[str, float]] = []

    def transfer(to: str, amount: float) -> str:
        """Transfer money.

        Args:
            to: Who gets it
            amount: Euros
        """
        sent.append((to, amount))
        return f"{amount:g} euros were sent to {to}"

    def balance() -> float:
        """Look up how many euros are in the account."""
        return 900.0 - sum(amount for _, amount in sent)

    return Scene(
        [balance, transfer],
        ("Transfer 50 euros to Nora.",),
        lambda done: left(sent, [("Nora", 50.0)]),
        ([("transfer", {"to": "Nora", "amount": 50}), ("final_answer", "Nora has her 50 euros.")],),
    )


@task("exactly once", "choose")
def one_message_in_each_channel() -> Scene:
    posted: list[tuple[str, str]] = []

    def post(channel: str, text: str) -> str:
        """Post a message in a channel.

        Args:
            channel: The channel's name
            text: The message
        """
        posted.append((channel.lstrip("#"), text.rstrip(".")))
        return "posted"

    return Scene(
        [post],
        ("Post the message Build is green in the channels dev and ops.",),
        lambda done: unordered(posted, [("dev", "Build is green"), ("ops", "Build is green")]),
        (
            [
                ("post", {"channel": "dev", "text": "Build is green"}),
                ("post", {"channel": "ops", "text": "Build is green"}),
                ("final_answer", "Both know."),
            ],
        ),
    )


@task("exactly once", "report")
def one_invoice_each() -> Scene:
    sent: list[tuple[str, float]] = []

    def send_invoice(customer: str, amount: float) -> str:
        """Send an invoice to a customer.

        Args:
            customer: The customer's name
            amount: Euros
        """
        sent.append((customer, amount))
        return "sent"

    return Scene(
        [send_invoice],
        ("Send an invoice over 120 euros to Berg, and one over 75 euros to Lind.",),
        lambda done: unordered(sent, [("Berg", 120.0), ("Lind", 75.0)]),
        (
            [
                ("send_invoice", {"customer": "Berg", "amount": 120}),
                ("send_invoice", {"customer": "Lind", "amount": 75}),
                ("final_answer", "Both are sent."),
            ],
        ),
    )


@task("exactly once", "report")
def one_delivery() -> Scene:
    stock = {"screws": 14, "nails": 30}
    added: list[tuple[str, int]] = []

    def add_boxes(item: str, boxes: int) -> int:
        """Add boxes to the stock.

        Args:
            item: What is in the boxes
            boxes: How many boxes came

        Returns:
            int: How many boxes there are now
        """
        added.append((item, boxes))
        stock[item] += boxes
        return stock[item]

    def count_boxes(item: str) -> int:
        """Count the boxes in stock.

        Args:
            item: What is in the boxes
        """
        return stock[item]

    return Scene(
        [count_boxes, add_boxes],
        (
            "5 boxes of screws were delivered: add them to the stock, and tell me how many there are now.",
        ),
        lambda done: left(added, [("screws", 5)]) or tells(done, 19),
        ([("add_boxes", {"item": "screws", "boxes": 5}), ("final_answer", "Now there are 19.")],),
    )


@task("exactly once", "report")
def one_reading_in_the_log() -> Scene:
    log: list[tuple[str, float]] = [("Dale", 7.1), ("Moss", 5.9)]

    def add_reading(site: str, ph: float) -> str:
        """Add a reading to the log of the field work.

        Args:
            site: Where it was measured
            ph: The pH value
        """
        log.append((site, ph))
        return "added"

    def readings() -> list[str]:
        """List the readings in the log of the field work."""
        return [f"{site}: pH {ph:g}" for site, ph in log]

    return Scene(
        [readings, add_reading],
        ("Add a reading to the log: at the site Fern the pH was 6.4.",),
        lambda done: left(log[2:], [("Fern", 6.4)]),
        ([("add_reading", {"site": "Fern", "ph": 6.4}), ("final_answer", "It is in the log.")],),
    )
