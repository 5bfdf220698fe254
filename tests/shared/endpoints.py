"""Agents that ask over plain HTTP, and a host that plays them."""

import http.client
import json
from dataclasses import replace
from urllib.parse import urlsplit

import torch

from minprm.endpoint.agents import AgentTask, Host
from minprm.endpoint.conversations import AgentEpisode
from minprm.envs.cups import Cups
from minprm.load.pretrained import make_sampler
from minprm.model.sampler import Completion
from shared.policies import agent
from shared.stages import CUPS


def hosted(agent, program, seeds: list[int], noise: int = 7, seconds: float = 20.0) -> list:
    """The episodes of these tasks, played by the program."""
    episodes = [AgentEpisode(AgentTask(seed), number=i) for i, seed in enumerate(seeds)]
    agent.sampler.begin()
    Host(program, seconds, agent, noise).play(episodes)
    return episodes


def sent(url: str, body: bytes, place: str = "/chat/completions", method: str = "POST") -> tuple:
    """(status, what was answered) of one request."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    connection.request(method, parts.path + place, body or None)
    response = connection.getresponse()
    return response.status, response.read()


def asked(url: str, messages: list[dict], **fields) -> dict:
    """The completion of this conversation."""
    status, text = sent(url, json.dumps({"messages": messages, **fields}).encode())
    assert status == 200, text
    return json.loads(text)


def answer(url: str, messages: list[dict], **fields) -> dict:
    """The assistant's message of it."""
    return asked(url, messages, **fields)["choices"][0]["message"]


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def cups_agent(url: str, seed: int) -> float:
    """Plays cups to its end, and returns 1 where it was won."""
    world = Cups(rounds=3, swaps=1)
    messages = [user(world.reset(seed))]
    done = False
    while not done:
        message = answer(url, messages)
        observation, _, done, _ = world.step(message["content"] or "")
        messages += [message, user(observation)]
    return float(world.success)


class Recorded:
    """A writer that notes what the one behind it was asked, and what it drew."""

    def __init__(self, sampler):
        self.sampler = sampler
        self.model = sampler.model
        self.calls = []  # (prompts, completions, seeds)

    def begin(self):
        self.sampler.begin()

    def generate(self, prompts, n, max_tokens, stop, temperature, seed):
        groups = self.sampler.generate(prompts, n, max_tokens, stop, temperature, seed)
        self.calls.append((prompts, groups, seed))
        return groups


class Scripted:
    """A writer that writes what it is told, in turn; then the last again."""

    def __init__(self, scripts: list[list[int]]):
        self.scripts = scripts
        self.prompts = []

    def begin(self):
        pass

    def generate(self, prompts, n, max_tokens, stop, temperature, seed):
        groups = []
        for prompt in prompts:
            self.prompts.append(prompt)
            ids = self.scripts[min(len(self.prompts), len(self.scripts)) - 1][:max_tokens]
            groups.append([Completion([*ids], [0.0] * len(ids))])
        return groups


def recorded(policy):
    """The policy as an agent that plays cups, and whose writer notes what it was asked."""
    made = agent(policy, CUPS)
    return replace(made, sampler=Recorded(make_sampler(policy.model, CUPS)))


def gap(policy, episodes: list) -> float:
    """The largest difference of log-probs between sampler and trainer, over all that was drawn."""
    samples = [sample for e in episodes for sample in e.samples]
    largest = 0.0
    for sample, logp in zip(samples, policy.logprobs(samples), strict=True):
        pairs = zip(sample.logprobs, sample.trained, strict=True)
        theirs = torch.tensor([number for number, trained in pairs if trained])
        largest = max(largest, (theirs - logp).abs().max().item())
    return largest


def ids_of(episodes: list) -> list:
    """The sampled ids of each turn of each episode."""
    turns = []
    for e in episodes:
        turns.append([sample.ids[begin:end] for sample, begin, end in e.spans])
    return turns
