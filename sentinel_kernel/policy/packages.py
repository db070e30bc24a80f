"""Import name -> the package that brings it, for those that are called otherwise."""

from __future__ import annotations

import re

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


def distribution_of(module: str) -> tuple[str, bool] | None:
    """Return (the package that brings ``module``, whether that is known); None where it is no module's name."""
    top = module.partition(".")[0]
    if not _MODULE.fullmatch(top) or not top.isascii():
        return None
    if top in _DISTRIBUTIONS:
        return _DISTRIBUTIONS[top], True
    return top.replace("_", "-"), top in _SAME
