"""A small GRPO loop in numpy. The lines marked with `# new` add stream; without them it is plain GRPO.

    python docs/examples/own_loop.py

A question is a colour and a digit; each colour adds a number of its own. The policy believes that every
colour adds 1, and knows what `add4` means. In the end it is asked without templates.
"""

import re

import numpy as np

from prompt_coevo import Coevolution, Question, Rollout, Settings  # new

COLOURS = {"red": 4, "blue": 7, "green": 2, "black": 8}
QUESTIONS = {f"{colour} {digit}": (colour, digit) for colour in COLOURS for digit in range(10)}
ANSWERS = {text: str((digit + COLOURS[c]) % 10) for text, (c, digit) in QUESTIONS.items()}
WORDS = [*COLOURS, *(f"add{n}" for n in range(10))]
GROUP, BATCH, EPOCHS, RATE = 8, 10, 20, 10.0

random = np.random.default_rng(0)
weights = np.zeros((len(WORDS), 10, 10))  # what a word says about the answer to a digit
for row, word in enumerate(WORDS):
    adds, belief = (1, 6.0) if word in COLOURS else (int(word[3:]), 9.0)
    weights[row, range(10), (np.arange(10) + adds) % 10] = belief


def known(prompt: str) -> tuple[list[int], int]:
    words = re.findall(r"\w+", prompt)
    return [WORDS.index(word) for word in WORDS if word in words], int(words[-1])


def chances(prompt: str) -> np.ndarray:
    rows, digit = known(prompt)
    odds = np.exp(weights[rows, digit].sum(0))
    return odds / odds.sum()


def answer(prompt: str) -> str:
    return str(random.choice(10, p=chances(prompt)))


def learn(prompts: list[str], answers: list[str], rewards: np.ndarray) -> None:
    groups = rewards.reshape(-1, GROUP)
    spread = groups.std(1, keepdims=True) + 1e-4
    gains = ((groups - groups.mean(1, keepdims=True)) / spread).ravel()
    for prompt, said, gain in zip(prompts, answers, gains, strict=True):
        rows, digit = known(prompt)
        change = -chances(prompt)
        change[int(said)] += 1
        weights[rows, digit] += RATE * gain / len(prompts) * change


guesses = np.random.default_rng(1)  # new


def teacher(prompt: str) -> str:  # new
    colours = [word for word in COLOURS if f"{word} " in prompt] or list(COLOURS)  # new
    guess = f"{guesses.choice(colours)} means add{guesses.integers(10)}"  # new
    return f"<template>{guess}</template>"  # new


class Policy:  # new
    def question(self, name):  # new
        return Question(name, name, ANSWERS[name])  # new

    def question_ids(self):  # new
        return list(QUESTIONS)  # new

    def rollout(self, requests):  # new
        return [scored(one.assignment) for one in requests]  # new


def scored(plan, said=None):  # new
    said = answer(plan.rollout_prompt(plan.question_id)) if said is None else said  # new
    right = float(said == ANSWERS[plan.question_id])  # new
    return Rollout.scored(plan, said, right, engine.policy_version)  # new


def main() -> float:
    for epoch in range(EPOCHS):
        order = random.permutation(list(QUESTIONS))
        for start in range(0, len(order), BATCH):
            asked = [str(text) for text in order[start : start + BATCH]]
            prompts = truths = [text for text in asked for _ in range(GROUP)]
            plan = engine.plan(asked, GROUP)  # new
            prompts = [one.rollout_prompt(one.question_id) for one in plan]  # new
            answers = [answer(prompt) for prompt in prompts]
            rewards = np.array(answers) == [ANSWERS[text] for text in truths]
            engine.observe(list(map(scored, plan, answers)))  # new
            prompts = [one.train_prompt(one.question_id) for one in plan]  # new
            learn(prompts, answers, rewards)
            engine.step_end(policy)  # new
        if epoch < EPOCHS - 1:  # new
            engine.epoch_end(policy)  # new
    return float(np.mean([chances(text)[int(right)] for text, right in ANSWERS.items()]))


if __name__ == "__main__":
    settings = Settings(reflection={"function": teacher})  # new
    engine, policy = Coevolution.from_settings(settings, output_dir="out"), Policy()  # new
    engine.begin(policy)  # new
    print(f"right without a template: {main():.0%}")
    engine.end(policy)  # new
