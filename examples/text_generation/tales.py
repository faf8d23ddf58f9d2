"""Random short tales in which names and things stay the same."""

from __future__ import annotations

import random

__all__ = ["generate_tale"]

NAMES = ("Mila", "Otto", "Pip", "Luna", "Bruno", "Ida", "Felix", "Nora", "Tom", "Rosa", "Emil", "Wanda", "Hugo", "Zoe")
ANIMALS = ("fox", "bear", "hare", "owl", "mouse", "badger", "goose", "hedgehog", "wolf", "cat", "frog", "squirrel")
NATURES = ("small", "brave", "sleepy", "curious", "clever", "shy", "merry", "grumpy")
PLACES = ("by the river", "in the old forest", "behind the mill", "on the green hill", "near the sea", "under a bridge")
FOODS = ("berries", "honey", "apples", "nuts", "mushrooms", "pears")
KINDS = ("golden", "silver", "tiny", "broken", "shiny", "wooden")
THINGS = ("key", "bell", "lamp", "boat", "ring", "drum", "clock", "kite")
SPOTS = ("under a stone", "in a hollow tree", "on the path", "behind a bush", "in the tall grass", "next to the well")
WEATHER = ("The sun was shining.", "It was raining.", "Snow was falling.", "A cold wind blew.", "There was thick fog.")
ENDS = (
    "From that day on they were friends.",
    "They laughed until the stars came out.",
    "And then they went home and slept.",
    "Nobody ever forgot that day.",
)


def generate_tale(rng: random.Random) -> str:
    """Return a random tale as one line of ASCII text."""
    name, other = rng.sample(NAMES, 2)
    animal, second = rng.sample(ANIMALS, 2)
    food = rng.choice(FOODS)
    kind, thing, spot = rng.choice(KINDS), rng.choice(THINGS), rng.choice(SPOTS)
    parts = [
        f"Once there was a {rng.choice(NATURES)} {animal} named {name} who lived {rng.choice(PLACES)}.",
        rng.choice([f"Every day {name} went out to look for {food}.", f"{name} liked nothing better than {food}."]),
        f"One morning the {animal} found a {kind} {thing} {spot}.",
    ]
    if rng.random() < 0.6:
        parts.insert(2, rng.choice(WEATHER))
    parts.append(f'"What a {kind} {thing}!" said {name}.')
    parts.append(f"Then a {second} named {other} came along.")
    if rng.random() < 0.5:
        parts.append(f'"That {thing} is mine," said {other}. "I lost it {spot}."')
        parts.append(f"So {name} gave the {thing} to the {second}, and the {second} gave {food} to the {animal}.")
    else:
        parts.append(f'"Is that {thing} yours?" asked {other}. "No," said {name}, "I found it {spot}."')
        parts.append(f"So {name} and {other} shared the {thing}, and the {food} too.")
    return " ".join([*parts, rng.choice(ENDS)]) + "\n"
