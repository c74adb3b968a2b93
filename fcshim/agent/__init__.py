"""Agents: the loop model -> tools -> model, with events, sub-agents and sessions.

An agent requests replies through a function that the caller passes in, so the loop is the same for every
upstream.
"""

from fcshim.agent.loop import DEFAULT_MAX_ROUNDS, Ask, Round, rounds
from fcshim.agent.run import Agent, AgentEvent, RoundEnded
from fcshim.agent.sessions import Sessions
from fcshim.agent.subagents import SubAgents
from fcshim.events import total_usage

__all__ = [
    "DEFAULT_MAX_ROUNDS",
    "Agent",
    "AgentEvent",
    "Ask",
    "Round",
    "RoundEnded",
    "Sessions",
    "SubAgents",
    "rounds",
    "total_usage",
]
