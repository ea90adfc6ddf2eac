# SPDX-License-Identifier: Apache-2.0
"""Rigs whose steps are scheduled before the last one's tokens are known, or with guessed ones."""
import collections
import random

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput

from rig import Rig
from tokens import CHAIN, continuation, next_token

BATCHES = 2  # of vLLM's queue
GUESSES = 3
WRONG = 3  # a token that the model says as seldom as any


class Ahead(Rig):
    """Asynchronous scheduling, as EngineCore.step_with_batch_queue does it."""

    scheduler_class, ahead = AsyncScheduler, True

    def __init__(self, *arguments, **values):
        self.queue, self.texts = collections.deque(), {}
        self.sampled = {}  # tokens that the runner has made, told or not
        super().__init__(*arguments, **values)

    def add(self, request_id, tokens, max_tokens=4, salt=b"", **values):
        self.texts[request_id] = list(tokens) + continuation(tokens, max_tokens + BATCHES, salt)
        self.sampled[request_id] = 0
        return super().add(request_id, tokens, max_tokens, salt, **values)

    def step(self):
        output = self.scheduler.schedule()
        self._see_blocks(output)
        cached = output.scheduled_cached_reqs
        for request_id in cached.resumed_req_ids:
            request = self.scheduler.requests[request_id]
            self.sampled[request_id] = request.num_output_tokens
        plan = [self._plan_request(output, request_id, count)
                for request_id, count in output.num_scheduled_tokens.items()]
        self.queue.append((output, self._execute(output, plan)))
        if len(self.queue) == BATCHES or not output.num_scheduled_tokens:
            while self.queue:
                self._update(*self.queue.popleft())
                if output.num_scheduled_tokens:
                    break
        self.steps += 1
        return output

    def run(self, until=None):
        super().run(until)
        while until is None and self.queue:
            self._update(*self.queue.popleft())

    def _plan_request(self, output, request_id, count):
        computed = self._computed(output, request_id)
        prompt = self.scheduler.requests[request_id].num_prompt_tokens
        hashes = CHAIN.of(self.texts[request_id][:computed + count], self.salts[request_id])
        whole = computed + count == prompt + self.sampled[request_id]
        assert whole or computed + count < prompt + self.sampled[request_id]
        self.sampled[request_id] += whole
        return (request_id, computed, hashes, self.tables[request_id],
                [next_token(hashes[-1])] if whole else [])


class Guessing(Rig):
    """Speculation: most guesses are wrong, what they leave in the cache is too."""

    def __init__(self, *arguments, **values):
        self.words = random.Random(5)
        super().__init__(*arguments, speculative_config=dict(
            method="ngram", num_speculative_tokens=GUESSES, prompt_lookup_max=3), **values)

    def _plan_request(self, output, request_id, count):
        request = self.scheduler.requests[request_id]
        guesses = [max(guess, WRONG) for guess in  # -1: only a place for one
                   output.scheduled_spec_decode_tokens.get(request_id, [])]
        computed = self._computed(output, request_id)
        known = computed + count - len(guesses)
        tokens = list(request.all_token_ids)[:known] + guesses
        hashes = CHAIN.of(tokens, self.salts[request_id])
        said = []
        if known == request.num_tokens:
            for guess, digest in zip([*guesses, None], hashes[known - 1:]):
                said.append(next_token(digest))
                if said[-1] != guess:
                    break
        return request_id, computed, hashes, self.tables[request_id], said

    def step(self):
        output = super().step()
        names = [name for name in output.num_scheduled_tokens if name in self.scheduler.requests]
        self.scheduler.update_draft_token_ids(DraftTokenIds(
            names, [self._guesses(self.scheduler.requests[name]) for name in names]))
        return output

    def _guesses(self, request):
        right = continuation(request.all_token_ids, GUESSES, self.salts[request.request_id])
        return [token if self.words.random() < 0.6 else WRONG for token in right]
