"""What was held back from an output, by kind, and the words for it."""

from __future__ import annotations

from sentinel_kernel.kernel.words import Words

SCRIPT = "script"
HTML_SCRIPT = "html-script"
ACTIVE = "active"
REMOTE = "remote"
TYPE = "type"
WIDGET = "widget"
COMM = "comm"
PAYLOAD = "payload"
TOO_LONG = "too-long"

_HOSTS_EN = (
    "Embed the data instead: Image(filename=...), Audio(..., embed=True), include_plotlyjs=True, INLINE resources. "
    "Or let outputs load from the host: %sentinel_trust_output HOST"
)
_HOSTS_ZH = (
    "请改为嵌入数据：Image(filename=...)、Audio(..., embed=True)、include_plotlyjs=True、INLINE 资源。"
    "或允许输出从该主机加载：%sentinel_trust_output 主机名"
)

WORDS = {
    HTML_SCRIPT: Words(
        "Scripts in this output were left out: the profile shows HTML without them.",
        "此输出中的脚本已被去除：当前配置只显示不含脚本的 HTML。",
        "Show a picture (PNG, SVG) instead, or let scripts run in a frame of their own: %sentinel_trust_output scripts",
        "请改为显示图片（PNG、SVG），或允许脚本在独立框架中运行：%sentinel_trust_output scripts",
    ),
    ACTIVE: Words(
        "Parts of this output were left out: they could act in the page (forms, frames, handlers, styles of the "
        "page, commands).",
        "此输出的一部分已被去除：它们可能在页面中执行操作（表单、框架、事件处理、页面样式、命令）。",
        "Text, tables, pictures, links, and plots of the usual libraries are shown; input() and "
        "widgets ask the person.",
        "文本、表格、图片、链接以及常用绘图库的图形都可以显示；请用 input() 或控件询问用户。",
    ),
    REMOTE: Words(
        "This output would load something from another host, which tells that host what is in it; it was left out.",
        "此输出会从其他主机加载内容，并由此泄露其中的数据；相关部分已被去除。",
        _HOSTS_EN,
        _HOSTS_ZH,
    ),
    TYPE: Words(
        "This output has a MIME type that pages may act on, and the profile does not list it; it was left out.",
        "此输出的 MIME 类型可能被页面执行，且未在配置中列出；已被去除。",
        'Show it as text, HTML or a picture, or list the type in a profile of your own: "outputs": {"types": [...]}',
        '请以文本、HTML 或图片显示，或在自己的配置中列出该类型："outputs": {"types": [...]}',
    ),
    WIDGET: Words(
        "A widget was held back: it brings code of its own (anywidget), or a module that the profile does not list.",
        "一个控件已被拦截：它自带代码（anywidget），或其模块未在配置中列出。",
        "ipywidgets, ipympl, ipyleaflet and k3d work. List a module that your server has in a profile of your own: "
        '"outputs": {"widget_modules": [...]}',
        "ipywidgets、ipympl、ipyleaflet 和 k3d 可以使用。请在自己的配置中列出服务器已安装的模块："
        '"outputs": {"widget_modules": [...]}',
    ),
    COMM: Words(
        "A comm was held back: its target is not one of widgets, and the profile does not list it.",
        "一个 comm 已被拦截：其目标不属于控件，且未在配置中列出。",
        'List the target in a profile of your own: "outputs": {"comm_targets": [...]}',
        '请在自己的配置中列出该目标："outputs": {"comm_targets": [...]}',
    ),
    PAYLOAD: Words(
        "A cell wanted to change another cell's text, or to open an editor, in a way that was held back.",
        "单元格试图更改其他单元格的文本或打开编辑器，已被拦截。",
        "Print the text, and copy what you want to run.",
        "请打印该文本，并自行复制要运行的内容。",
    ),
    TOO_LONG: Words(
        "A picture in this output is not one, or too long to be looked through; it was left out.",
        "此输出中的图片无效或过长，无法检查；已被去除。",
        "Show it as PNG: plt.savefig('x.png', dpi=150), Image('x.png').",
        "请以 PNG 显示：plt.savefig('x.png', dpi=150)、Image('x.png')。",
    ),
}
