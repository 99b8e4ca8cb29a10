"""A trainer for sweeps: its loss depends on optimizer.lr alone, 0.1 is best. It goes on from its checkpoint, saves when it is
asked to stop, and fails at step 3 where trainer.config.fail names a file that is not there."""

import json
import math
import os
import sys
import time

import autolaunch

with open(os.environ["AUTOLAUNCH_TRAINER_CONFIG"]) as file:
    config = json.load(file)
settings = config["trainer"]["config"]
rate = config["optimizer"]["lr"]
folder = config["checkpoint"]["checkpoint_dir"]
saved = os.path.join(folder, "saved")

first = 1
if os.path.exists(saved):
    with open(saved) as file:
        first = int(file.read()) + 1
print(f"lr {rate} seed {settings.get('seed')} from step {first}", flush=True)
steps = settings["steps"]
for step in range(first, steps + 1):
    time.sleep(settings["seconds"])
    autolaunch.report_step(step, loss=abs(math.log10(rate) + 1) + 1 / step, total_steps=steps)
    if "fail" in settings and step == 3 and not os.path.exists(settings["fail"]):
        sys.exit(3)
    if autolaunch.stop_requested():
        os.makedirs(folder, exist_ok=True)
        with open(saved, "w") as file:
            file.write(str(step))
        autolaunch.report_checkpoint(step, saved)
        print(f"saved at step {step}: {autolaunch.stop_reason()}", flush=True)
        break
