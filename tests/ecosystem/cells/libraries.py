"""Scientific libraries at work."""

# ruff: noqa: E501 - a line of a cell is one line here

from __future__ import annotations

from ecosystem_cell import entry

ENTRIES = (
    entry(
        "numpy and its threads",
        "import numpy as np\nrandom = np.random.default_rng(1)\na = random.standard_normal((400, 400))\nprint(np.allclose(a @ np.linalg.inv(a), np.eye(400), atol=1e-6))\n"
        "np.save('a.npy', a)\nprint(np.load('a.npy', mmap_mode='r').shape, np.memmap('m.dat', dtype='f4', mode='w+', shape=(10,)).sum())",
        prints=r"True\n\(400, 400\) 0\.0\n",
        needs=("numpy",),
    ),
    entry(
        "pandas",
        "import pandas as pd\nframe = pd.DataFrame({'a': [1, 2, 3], 'b': list('xyx')})\nframe.to_csv('f.csv', index=False)\nprint(pd.read_csv('f.csv').groupby('b').a.sum().to_dict())\n"
        "frame.to_pickle('f.pkl')\nprint(pd.read_pickle('f.pkl').equals(frame))",
        prints=r"\{'x': 4, 'y': 2\}\nTrue\n",
        needs=("pandas",),
    ),
    entry(
        "matplotlib inline, its caches and fonts",
        "%matplotlib inline\nimport matplotlib.pyplot as plt, matplotlib, os\nplt.plot([1, 3, 2])\nplt.title('größe 漢')\nplt.show()",
        "import matplotlib.font_manager as fonts\nprint(len(fonts.fontManager.ttflist) > 10, os.path.exists(fonts.findfont('DejaVu Sans')), os.access(matplotlib.get_cachedir(), os.W_OK))",
        "figure = plt.figure()\nfigure.add_subplot().imshow([[1, 2], [3, 4]])\nfigure.savefig('f.png')\nfigure.savefig('f.pdf')\nfigure.savefig('f.svg')\nplt.close(figure)\n"
        "print([os.path.getsize('f.' + ending) > 1000 for ending in ('png', 'pdf', 'svg')])",
        prints=r"(?s)(.*Font.*\n|.*Glyph.*\n|.*print_figure.*\n|.*font cache.*\n)*<image/png>True True True\n\[True, True, True\]\n",
        needs=("matplotlib",),
    ),
    entry(
        "matplotlib without a screen",
        "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt, io\nfrom matplotlib.animation import FuncAnimation, PillowWriter\nfigure, axes = plt.subplots()\nline, = axes.plot([0, 1])\n"
        "FuncAnimation(figure, lambda n: line.set_data([0, 1], [0, n]), frames=3).save('a.gif', writer=PillowWriter())\nprint(open('a.gif', 'rb').read(6))\nplt.close(figure)",
        prints=r"b'GIF89a'\n",
        needs=("matplotlib", "PIL"),
    ),
    entry(
        "scipy",
        "import numpy as np\nfrom scipy import optimize, sparse, fft, stats, integrate\nprint(round(optimize.brentq(lambda x: x * x - 2, 0, 2), 6), round(integrate.quad(np.sin, 0, np.pi)[0], 6))\n"
        "print(sparse.eye(5).sum(), np.allclose(fft.ifft(fft.fft(np.arange(64.0), workers=2), workers=2).real, np.arange(64)), round(stats.norm.cdf(0), 3))",
        prints=r"1\.414214 2\.0\n5\.0 True 0\.5\n",
        needs=("scipy",),
    ),
    entry(
        "scikit-learn on several processors",
        "from sklearn.datasets import load_iris\nfrom sklearn.ensemble import RandomForestClassifier\nfrom sklearn.model_selection import cross_val_score\n"
        "X, y = load_iris(return_X_y=True)\nprint(cross_val_score(RandomForestClassifier(20, n_jobs=2, random_state=0), X, y, n_jobs=2).mean() > 0.9)",
        "from joblib.externals.loky import get_reusable_executor\nget_reusable_executor().shutdown(wait=True)",
        prints=r"True\n",
        needs=("sklearn",),
    ),
    entry(
        "numba with a cache and threads",
        "%%writefile ecosystem_numba.py\nimport numba\n\n@numba.njit(cache=True)\ndef total(n):\n    s = 0\n    for i in range(n):\n        s += i\n    return s\n\n"
        "@numba.njit(parallel=True)\ndef parallel(n):\n    s = 0\n    for i in numba.prange(n):\n        s += i\n    return s",
        "import ecosystem_numba, glob, subprocess, sys\nprint(ecosystem_numba.total(1000), ecosystem_numba.parallel(1000), len(glob.glob('__pycache__/ecosystem_numba.*.nbi')))",
        "print(subprocess.check_output([sys.executable, '-c', 'import ecosystem_numba as e; e.total(3); print(sum(e.total.stats.cache_hits.values()))'], text=True).strip())",
        "import numba\n\n@numba.njit(cache=True)\ndef in_a_cell(n):\n    return n + 1\n\nprint(in_a_cell(1))",
        prints=r"Writing .*\n499500 499500 1\n1\n2\n",
        needs=("numba",),
    ),
    entry(
        "sqlite3",
        "import sqlite3\nwith sqlite3.connect('base.db') as base:\n    base.execute('pragma journal_mode=wal')\n    base.execute('create table t (a)')\n    base.executemany('insert into t values (?)', [(n,) for n in range(100)])\n"
        "print(sqlite3.connect('base.db').execute('select sum(a) from t').fetchone())",
        prints=r"\(4950,\)\n",
    ),
    entry(
        "duckdb",
        "import duckdb\nbase = duckdb.connect('base.duckdb')\nbase.execute('create table t as select range a from range(100000)')\nprint(base.execute('select sum(a) from t').fetchone())\n"
        "base.execute(\"copy t to 't.parquet' (format parquet)\")\nprint(base.execute(\"select count(*) from 't.parquet'\").fetchone())\nbase.close()",
        "import pandas as pd\nframe = pd.DataFrame({'a': [1, 2]})\nprint(duckdb.query('select max(a) from frame').fetchall())",
        prints=r"\(4999950000,\)\n\(100000,\)\n\[\(2,\)\]\n",
        needs=("duckdb", "pandas"),
    ),
    entry(
        "polars",
        "import polars as pl\nframe = pl.DataFrame({'a': range(1000), 'b': [n % 7 for n in range(1000)]})\nframe.write_parquet('p.parquet')\nframe.write_csv('p.csv')\n"
        "print(pl.scan_parquet('p.parquet').group_by('b').agg(pl.col('a').sum()).sort('b').collect()['a'][0], pl.read_csv('p.csv').shape)\nprint(pl.thread_pool_size() >= 1)",
        prints=r"71071 \(1000, 2\)\nTrue\n",
        needs=("polars",),
    ),
    entry(
        "pyarrow",
        "import pyarrow as pa, pyarrow.parquet as pq, pyarrow.dataset as ds, pyarrow.compute as pc\ntable = pa.table({'a': range(10000), 'b': ['x', 'y'] * 5000})\npq.write_table(table, 'q.parquet')\n"
        "print(pq.read_table('q.parquet', use_threads=True).equals(table), pq.read_table('q.parquet', memory_map=True).num_rows)\n"
        "pq.write_to_dataset(table, 'set', partition_cols=['b'])\nprint(ds.dataset('set', partitioning='hive').to_table(filter=ds.field('b') == 'x').num_rows)\n"
        "print(pc.sum(table['a']).as_py(), pa.cpu_count() >= 1, pa.default_memory_pool().backend_name)",
        prints=r"True 10000\n5000\n49995000 True \w+\n",
        needs=("pyarrow",),
    ),
    entry(
        "widgets and progress bars",
        "import ipywidgets\nslider = ipywidgets.IntSlider(value=3)\nslider",
        "from tqdm.auto import tqdm\nprint(sum(tqdm(range(10), disable=False, leave=False)))\nslider.value = 5\nprint(slider.value)",
        prints=r"(?s)<application/vnd\.jupyter\.widget-view\+json>.*45\n.*5\n",
        needs=("tqdm",),
    ),
)
