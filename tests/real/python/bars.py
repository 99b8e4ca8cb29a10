# A bar of tqdm or rich, and a line that each prints among it.
import sys
import time

if sys.argv[1] == "tqdm":
    from tqdm import tqdm
    for i in tqdm(range(200), desc="epoch"):
        time.sleep(0.01)
        if i == 100:
            tqdm.write("half of it")
else:
    from rich.progress import Progress
    with Progress() as progress:
        task = progress.add_task("epoch", total=200)
        for i in range(200):
            time.sleep(0.01)
            progress.advance(task)
            if i == 100:
                progress.console.print("half of it")
