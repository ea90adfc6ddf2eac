# SPDX-License-Identifier: Apache-2.0
"""Goal: whoever is killed and whenever, the others go on, no byte is ever wrong, and nothing stays
behind. (Bug reports O1-18, O2-03, O3-01.)

Method: client processes that put, look up and load pages whose content follows from the key, over
more pages than the host pool holds. In each round one of them, or the daemon, gets SIGKILL at a
random moment; the daemon is started again at once over its pool and store. A round ends when every
survivor has been served again. $KVSIDECAR_KILL_ROUNDS: how many rounds; $KVSIDECAR_SEED: the seed,
which is printed.
"""
import collections
import os
import random
import time

import accounts
from engines import EngineProcess
from waiting import readable

ROUNDS = int(os.environ.get("KVSIDECAR_KILL_ROUNDS", "50"))
CLIENTS = 3
DOCUMENTS = 500  # of up to 12 pages of 64 KiB: 375 MiB; the host pool has 64, the store 256
PAGE_BYTES = 65536
MOMENT_S = 0.06


class Fleet:
    """Working clients, and one that stands by so that a round needn't wait for a new process."""

    def __init__(self, daemon, chance):
        self.daemon, self.chance = daemon, chance
        self.working = [self.spawn() for _ in range(CLIENTS)]
        self.spare = self.spawn()
        for engine in self.working:
            self.set_to_work(engine)

    def spawn(self):
        return EngineProcess(self.daemon.socket, PAGE_BYTES)

    def set_to_work(self, engine):
        engine.wait_ready().begin("work", self.chance.getrandbits(32), DOCUMENTS)

    def kill_one(self):
        victim = self.working.pop(self.chance.randrange(CLIENTS))
        victim.process.kill()
        victim.drop_lines()  # none of which tells of a wrong byte
        victim.kill()
        self.working.append(self.spare)
        self.set_to_work(self.spare)
        self.spare = self.spawn()

    def wait_for_service(self):
        """Until the present life of the daemon has served each of them."""
        epoch = accounts.status(self.daemon)["epoch"]
        for engine in self.working:
            engine.progress(engine.drop_lines(), epoch)

    def end(self):
        """Lets all end; the sum of what they tell."""
        total = collections.Counter()
        for engine in self.working:
            engine.begin("connects")  # ends the work, whose report comes first
            total.update(engine.answer())
            total["reconnects"] += engine.answer() - 1
        for engine in self.working + [self.spare.wait_ready()]:
            assert engine.end() == 0
        return total


def wait_a_moment(daemon, seconds):
    """A random moment is reached. The daemon's end, which must not happen, cuts it short."""
    pidfd = os.pidfd_open(daemon.pid)
    try:
        assert not readable([pidfd], seconds), daemon.log()
    finally:
        os.close(pidfd)


def test_survivors_of_kills_go_on_and_never_see_a_wrong_byte(start):
    seed = int(os.environ.get("KVSIDECAR_SEED", random.SystemRandom().getrandbits(32)))
    print(f"KVSIDECAR_SEED={seed}")
    chance = random.Random(seed)
    daemon = start()
    fleet = Fleet(daemon, chance)
    begin, daemon_kills = time.monotonic(), 0
    for _ in range(ROUNDS):
        wait_a_moment(daemon, chance.random() * MOMENT_S)
        if chance.random() < 0.4:
            daemon.kill()
            daemon.start()
            daemon_kills += 1
        else:
            fleet.kill_one()
        fleet.wait_for_service()
    total = fleet.end()
    print(f"{ROUNDS} rounds, {daemon_kills} of them against the daemon, in "
          f"{time.monotonic() - begin:.1f} s: {dict(total)}")
    assert total["wrong"] == 0
    assert total["loaded"] > 0 and total["put"] > 0
    accounts.check_sums(accounts.status(daemon)["counters"])
