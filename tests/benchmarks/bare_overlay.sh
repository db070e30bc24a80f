# Times file loops on a folder and on a bare overlay of it: LOWER PYTHON, inside new user and mount namespaces.
set -eu
lower=$1
python=$2
loops='
import json, os, sys, time
path = sys.argv[1] + "/data.bin"
def best(action, count):
    taken = []
    for _ in range(7):
        started = time.perf_counter()
        for _ in range(count):
            action()
        taken.append(time.perf_counter() - started)
    return sorted(taken)[3]
def open_read_close():
    file = os.open(path, 0)
    os.read(file, 4096)
    os.close(file)
print(json.dumps({"open_read_close": best(open_read_close, 3000), "stat": best(lambda: os.stat(path), 6000)}))
'
"$python" -c "$loops" "$lower"
mount -t tmpfs bench /mnt
mkdir /mnt/upper /mnt/work /mnt/merged
mount -t overlay bench /mnt/merged -o "lowerdir=$lower,upperdir=/mnt/upper,workdir=/mnt/work,userxattr"
"$python" -c "$loops" /mnt/merged
