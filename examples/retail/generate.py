"""Writes prices.csv and sales.csv of the example chain. Same seed, same files: run it and nothing changes.

python examples/retail/generate.py
"""

import csv
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

SEED = 7600
SALES_A_STORE = 400
HERE = Path(__file__).parent

GOODS = {
    "bakery": (
        "bread rolls",
        "white loaf",
        "wholemeal loaf",
        "rye loaf",
        "baguette",
        "fruit scone",
        "crumpet",
        "bagel",
    ),
    "dairy": (
        "whole milk",
        "skimmed milk",
        "butter",
        "cheddar",
        "brie",
        "yoghurt",
        "cream",
        "cottage cheese",
    ),
    "produce": ("apples", "pears", "carrots", "potatoes", "leeks", "tomatoes", "spinach", "onions"),
    "larder": ("flour", "sugar", "rice", "pasta", "oats", "lentils", "tinned beans", "honey"),
    "drinks": (
        "tea",
        "coffee",
        "apple juice",
        "orange juice",
        "lemonade",
        "still water",
        "cider",
        "pale ale",
    ),
    "household": (
        "washing powder",
        "soap",
        "candles",
        "matches",
        "kitchen roll",
        "light bulb",
        "sponge",
        "bin bags",
    ),
}
SIZES = (
    ("small", 60),
    ("medium", 100),
    ("large", 180),
    ("family", 320),
    ("twin pack", 190),
    ("own brand", 75),
)


def articles(chance: random.Random) -> Iterator[tuple[int, str, str, int]]:
    """Yield (article number, name, department, price in pence)."""
    number = 1000
    for department, names in GOODS.items():
        for name in names:
            base = chance.randrange(60, 400)
            for size, percent in SIZES:
                number += chance.randrange(1, 9)
                yield number, f"{name}, {size}", department, base * percent // 100


def sales(
    chance: random.Random, store: str, prices: list[tuple[int, int]]
) -> Iterator[tuple[str, int, str, int, int, int]]:
    """Yield (store, receipt, time, article, quantity, total in pence), in the order of one day."""
    at = datetime(2026, 3, 14, 8, 0)
    for receipt in range(1, SALES_A_STORE + 1):
        at += timedelta(seconds=chance.randrange(5, 160))
        article, price = chance.choice(prices)
        quantity = chance.choice((1, 1, 1, 2, 2, 3, 6))
        yield store, receipt, at.isoformat(), article, quantity, quantity * price


def write(name: str, columns: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    with (HERE / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def main() -> None:
    chance = random.Random(SEED)
    goods = list(articles(chance))
    write("prices.csv", ("article", "name", "department", "pence"), list(goods))
    with (HERE / "stores.csv").open(encoding="utf-8") as file:
        stores = [row["name"] for row in csv.DictReader(file) if row["role"] == "leaf"]
    prices = [(number, pence) for number, _, _, pence in goods]
    sold = [sale for store in stores for sale in sales(chance, store, prices)]
    write("sales.csv", ("store", "receipt", "at", "article", "quantity", "pence"), list(sold))


if __name__ == "__main__":
    main()
