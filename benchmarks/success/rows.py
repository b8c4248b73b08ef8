"""Right answers, requests, tokens and seconds of a map that asks about several rows in one request.

python -m benchmarks.success.rows                            the model that `%agent` would take, at 1, 5, 20 rows
python -m benchmarks.success.rows --model local --rows 1,4   an embedded model, at 1 and at 4 rows a request
python -m benchmarks.success.rows --verify 10                with the comparison, which may lower the number

The rows are forty messages of customers that were written for this, each with the one department that it is for.
"""

from __future__ import annotations

import argparse
import time
from typing import Literal

import pandas as pd

import archytas_nb as nb
from archytas_nb.batch.interval import wilson

Department = Literal["delivery", "payment", "product", "account"]
PROMPT = (
    "Which department is this message for: delivery (where an order is, and how it is sent), payment (invoices, prices "
    "and refunds), product (what is wrong with an article, and how it works), or account (login and personal data)? "
    "{message}"
)
MESSAGES: tuple[tuple[str, Department], ...] = (
    ("My parcel has been in Leipzig for six days.", "delivery"),
    ("You charged my card twice for the same order.", "payment"),
    ("The left hinge of the cupboard squeaks.", "product"),
    ("I cannot log in since I changed my phone.", "account"),
    ("Can the driver leave the box with my neighbour?", "delivery"),
    ("The invoice has the old VAT number of our company.", "payment"),
    ("How do I reset the filter light of the vacuum cleaner?", "product"),
    ("Please change the e-mail address I sign in with.", "account"),
    ("The tracking page says delivered, but nothing is here.", "delivery"),
    ("Is the discount of ten percent already in the total?", "payment"),
    ("Two screws are missing from the bag.", "product"),
    ("Delete all data that you have about me.", "account"),
    ("We move next week; send the order to the new house.", "delivery"),
    ("My refund for the chair has not arrived at the bank.", "payment"),
    ("The battery lasts an hour, not the eight you promise.", "product"),
    ("The code for the password never reaches me.", "account"),
    ("Do you ship to the Azores?", "delivery"),
    ("Can I pay in three instalments?", "payment"),
    ("Which bulb fits into this lamp?", "product"),
    ("Somebody else has ordered with my login.", "account"),
    ("The courier rang at the wrong house.", "delivery"),
    ("Why was a fee of four euros added?", "payment"),
    ("The screen stays black after the update.", "product"),
    ("My name is misspelled in my profile.", "account"),
    ("When will the rest of the order come?", "delivery"),
    ("The voucher is refused at the till.", "payment"),
    ("The table wobbles on a flat floor.", "product"),
    ("How do I switch on the second factor?", "account"),
    ("The box was left in the rain.", "delivery"),
    ("I need a receipt for my tax return.", "payment"),
    ("Is the fabric washable at sixty degrees?", "product"),
    ("Merge my two profiles, please.", "account"),
    ("Can I collect it at the depot instead?", "delivery"),
    ("The bank says that the direct debit was sent back.", "payment"),
    ("The kettle smells of plastic.", "product"),
    ("I am locked out after five attempts.", "account"),
    ("Express was paid, and it came after nine days.", "delivery"),
    ("You took the price of last month.", "payment"),
    ("The zip broke on the second day.", "product"),
    ("Unsubscribe my old address from the newsletter.", "account"),
)


def measured(model: str | None, rows: int, verify: int, number: int) -> str:
    """One line about a map at so many rows a request."""
    frame = pd.DataFrame(MESSAGES[:number], columns=["message", "expected"])
    agent = nb.Agent([], model=model)
    started = time.perf_counter()
    options = {"rows": rows, "verify": verify, "workers": 1, "store": None}
    out = agent.map(frame, PROMPT, output_type=Department, **options)
    seconds = time.perf_counter() - started
    right = int((out["answer"] == frame["expected"]).sum())
    low, high = wilson(right, len(frame))
    known = out.attrs.get("rows", {})
    how = f", {known['together']} together at {known['number']}" if known else ""
    return (
        f"rows={rows}: {right} of {len(frame)} right (95 %: {low:.0%} to {high:.0%}){how}, "
        f"{int(out['tokens'].sum()):,} tokens, {seconds:.0f} s"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--rows", default="1,5,20", help="numbers of rows in a request")
    parser.add_argument("--verify", type=int, default=0, help="rows that are also asked singly")
    parser.add_argument("--number", type=int, default=len(MESSAGES), help="how many messages")
    given = parser.parse_args()
    for each in given.rows.split(","):
        print(measured(given.model, int(each), given.verify, given.number), flush=True)
