#!/usr/bin/env bash
# Opens a report in headless Chromium: on a phone's 390 pixels and on a desktop's 1280, light and dark.
# Fails on errors in the console, on requests for anything but the file itself, and where the page
# scrolls sideways. Not part of .ci/run: not every machine has Chromium.
#
#   ci/report.sh REPORT.html [FOLDER]    FOLDER: screenshots and the printed page go there
set -euo pipefail
report=$(realpath "${1:?a report}")
out=${2:-}
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "$out" ]; then mkdir -p "$out"; out=$(realpath "$out"); fi

browse() {
    timeout 120 "$chromium" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
        --disable-background-networking --disable-component-update --disable-sync \
        --hide-scrollbars --enable-logging=stderr --v=0 --user-data-dir="$work/profile" "$@"
}

# The page in a frame of a given width: headless windows are never narrower than 500 pixels. The
# frame's title becomes what was found.
probe() {
    cat > "$work/probe.html" <<HTML
<!doctype html><meta charset=utf-8><link rel=icon href="data:,"><body style="margin:0">
<iframe id=f src="report.html" style="border:0;width:$1px;height:900px"></iframe>
<pre id=found>pending</pre><script>
f.onload = () => {
  const w = f.contentWindow, d = f.contentDocument, e = d.documentElement;
  d.querySelectorAll('details').forEach(one => one.open = true);
  const wide = [...d.body.querySelectorAll('*')].filter(one =>
    one.getBoundingClientRect().right > $1 + 1 && !one.closest('.scroll') && !one.closest('svg'));
  const asked = w.performance.getEntriesByType('resource').map(one => one.name)
    .filter(name => !name.startsWith('data:'));
  const links = [...d.querySelectorAll('a[href^="#"]')].map(a => a.getAttribute('href').slice(1));
  found.textContent = JSON.stringify({
    overflow: Math.max(e.scrollWidth, d.body.scrollWidth) - $1,
    wide: wide.slice(0, 5).map(one => one.tagName + '.' + one.className),
    asked, dead: links.filter(id => !d.getElementById(id)),
    twice: [...d.querySelectorAll('[id]')].map(one => one.id).filter((id, i, all) => all.indexOf(id) != i),
    plots: d.querySelectorAll('svg.plot').length, articles: d.querySelectorAll('article').length });
};
</script>
HTML
    cp "$report" "$work/report.html"
    browse --allow-file-access-from-files --virtual-time-budget=20000 --window-size=1400,1000 \
        --dump-dom "file://$work/probe.html" 2> "$work/log" | sed -n 's/.*<pre id="found">\(.*\)<\/pre>.*/\1/p'
}

failed=0
for width in 360 390 1280; do
    found=$(probe $width)
    echo "$width px: $found"
    for good in '"overflow":0' '"wide":\[\]' '"asked":\[\]' '"dead":\[\]' '"twice":\[\]'; do
        if ! grep -q "$good" <<< "$found"; then echo "  not $good"; failed=1; fi
    done
    if grep 'CONSOLE' "$work/log"; then failed=1; fi
done

if [ -n "$out" ]; then
    for theme in 0 1; do
        name=$([ $theme = 0 ] && echo dark || echo light)
        browse --blink-settings=preferredColorScheme=$theme --window-size=1280,4000 \
            --screenshot="$out/desktop-$name.png" "file://$report" 2> /dev/null
        cat > "$work/phone.html" <<HTML
<!doctype html><body style="margin:0"><iframe src="file://$report" style="border:0;width:390px;height:4000px"></iframe>
HTML
        browse --blink-settings=preferredColorScheme=$theme --window-size=500,4000 \
            --screenshot="$out/phone-$name.png" "file://$work/phone.html" 2> /dev/null
    done
    browse --no-pdf-header-footer --print-to-pdf="$out/print.pdf" "file://$report" 2> /dev/null
    ls "$out"
fi
exit $failed
