"""Import name -> the package that brings it, for those that are called otherwise."""

from __future__ import annotations

import difflib
import re
import sys

from sentinel_kernel.policy.cell_source import words

_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")

_DISTRIBUTIONS = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "Bio": "biopython",
    "cairo": "pycairo",
    "Crypto": "pycryptodome",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "distutils": "setuptools",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "fitz": "PyMuPDF",
    "git": "GitPython",
    "github": "PyGithub",
    "google": "protobuf",
    "grpc": "grpcio",
    "igraph": "igraph",
    "jose": "python-jose",
    "jwt": "PyJWT",
    "kafka": "kafka-python",
    "Levenshtein": "levenshtein",
    "ldap": "python-ldap",
    "magic": "python-magic",
    "mpl_toolkits": "matplotlib",
    "MySQLdb": "mysqlclient",
    "nacl": "PyNaCl",
    "OpenSSL": "pyOpenSSL",
    "osgeo": "GDAL",
    "PIL": "pillow",
    "pkg_resources": "setuptools",
    "pptx": "python-pptx",
    "psycopg2": "psycopg2-binary",
    "pylab": "matplotlib",
    "pywt": "PyWavelets",
    "rtree": "Rtree",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "slugify": "python-slugify",
    "socks": "PySocks",
    "speech_recognition": "SpeechRecognition",
    "tables": "tables",
    "umap": "umap-learn",
    "usb": "pyusb",
    "win32api": "pywin32",
    "wx": "wxPython",
    "yaml": "PyYAML",
    "zmq": "pyzmq",
}
"""Where the names differ (PyPI's pages of each)."""

_SAME = words(
    "aiohttp altair arviz astropy bokeh boto3 catboost click cloudpickle cupy cvxpy cython dash dask "
    "datasets django duckdb einops fastapi flask folium fsspec gensim geopandas h5py holoviews httpx "
    "hypothesis imageio ipywidgets jax jinja2 joblib jsonschema keras lightgbm lxml markdown matplotlib "
    "mne mpmath mypy networkx nltk numba numexpr numpy openpyxl orjson pandas panel patsy peewee plotly "
    "polars prophet psutil pyarrow pydantic pygments pymc pypdf pyproj pytest pytorch_lightning pyvista "
    "qutip rasterio ray redis regex requests rich rpy2 scikit_learn scipy scrapy seaborn shap shapely "
    "simpy sklearn spacy sqlalchemy statsmodels streamlit sympy tabulate tensorflow tiktoken torch "
    "torchaudio torchvision tornado tqdm transformers trimesh typer uvicorn vaex websockets xarray "
    "xgboost xlrd xlsxwriter zarr"
)
"""Well-known ones whose names are the same."""


def is_known(package: str) -> bool:
    """Tell whether ``package`` is the name of a well-known package, as pip takes it."""
    return canonical(package) in {canonical(name) for name in (*_DISTRIBUTIONS.values(), *_SAME)}


def canonical(name: str) -> str:
    """Return a package's name as indexes and tools compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()  # PEP 503


_LETTERS = 4
"""Shorter names are all alike."""

_ALIKE, _LONG = 0.8, 8
"""Two mistakes are one in a name of so many letters."""


def meant_by(module: str) -> str | None:
    """Return the known module whose name ``module`` looks like with a slip of the keys; None where it is like none.

    What is returned is a name of ours, never the given one.
    """
    top = module.partition(".")[0]
    known = {*_DISTRIBUTIONS, *_SAME, *sys.stdlib_module_names}
    if top in known or not _MODULE.fullmatch(top) or not top.isascii():
        return None
    for name in sorted(known):
        if name.lower() == top.lower():
            return name
    if len(top) < _LETTERS:
        return None
    alike = (name for name in sorted(known) if len(name) >= _LETTERS and not name.startswith("_"))
    return next((name for name in alike if _is_slip(top.lower(), name.lower())), None)


def slip_of(module: str) -> str | None:
    """Return what :func:`meant_by` does, unless digits alone are added: other packages are named so (json5)."""
    meant = meant_by(module)
    return None if meant is None or module.rstrip("0123456789") == meant else meant


def _is_slip(typed: str, name: str) -> bool:
    """Tell whether one letter is missing, too many, wrong or swapped with the next; of a long name a little more."""
    if abs(len(typed) - len(name)) > 1:
        return False
    start = next((at for at, (one, other) in enumerate(zip(typed, name, strict=False)) if one != other), None)
    if start is None:
        return True  # one is the beginning of the other
    left, right = typed[start:], name[start:]
    if left[1:] == right[1:] or left[1:] == right or left == right[1:]:
        return True
    if left[:2] == right[:2][::-1] and left[2:] == right[2:]:
        return True
    return (
        min(len(typed), len(name)) >= _LONG and difflib.SequenceMatcher(None, typed, name).ratio() >= _ALIKE
    )


def distribution_of(module: str) -> tuple[str, bool] | None:
    """Return (the package that brings ``module``, whether that is known); None where it is no module's name."""
    top = module.partition(".")[0]
    if not _MODULE.fullmatch(top) or not top.isascii() or top in sys.stdlib_module_names:
        return None  # what Python itself brings, no package of that name does
    if top in _DISTRIBUTIONS:
        return _DISTRIBUTIONS[top], True
    return top.replace("_", "-"), top in _SAME
