#include <fmt/format.h>

#include <filesystem>

#include "graph/error.h"
#include "graph/io/output_file.h"
#include "runtime/picture/heatmap.h"

namespace attune {
namespace {

// The page draws the matrix from the JSON in it: column labels upright, so that 100 × 100 tokens stay legible.
constexpr std::string_view kPage = R"html(<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Alignment</title>
<style>
body { font: 14px system-ui, sans-serif; margin: 1.5rem; color: #222; }
header { display: flex; gap: 1rem; align-items: baseline; flex-wrap: wrap; }
h1 { font-size: 1.1rem; margin: 0; }
#value { min-width: 22em; font-variant-numeric: tabular-nums; }
#scroll { overflow: auto; max-height: calc(100vh - 7rem); margin-top: 1rem; }
table { border-collapse: collapse; }
td { width: 18px; min-width: 18px; height: 18px; border: 1px solid #fff; padding: 0; box-sizing: border-box; }
td.over { outline: 2px solid #e07b00; outline-offset: -2px; }
thead { position: sticky; top: 0; z-index: 2; }
#columns td { background: #fff; position: sticky; left: 0; }
th { font-weight: normal; font-size: 13px; line-height: 18px; white-space: pre; background: #fff; padding: 0; }
thead th { writing-mode: vertical-rl; transform: rotate(180deg); padding: 4px 0; }
tbody th { text-align: right; padding-right: 6px; position: sticky; left: 0; z-index: 1; }
th.over { color: #b35f00; font-weight: bold; }
</style>
<header><h1 id="title"></h1><label>Head <select id="head"></select></label><output id="value">Point at a cell.</output></header>
<div id="scroll"><table><thead><tr id="columns"><td></td></tr></thead><tbody id="rows"></tbody></table></div>
<script id="data" type="application/json">@DATA@</script>
<script>
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
byId("title").textContent = data.title || "Alignment";
data.heads.forEach((h, i) => byId("head").add(new Option(h.name, i)));
for (const c of data.columns) byId("columns").appendChild(Object.assign(document.createElement("th"), { textContent: c }));
const cells = data.rows.map((label) => {
  const tr = byId("rows").insertRow();
  tr.appendChild(Object.assign(document.createElement("th"), { textContent: label }));
  return data.columns.map(() => tr.insertCell());
});
const mix = (a, b, w) => Math.round(a + (b - a) * w);
let over = null;  // the cell under the pointer
function show() {
  document.querySelectorAll(".over").forEach((x) => x.classList.remove("over"));
  if (!over) return;
  const [r, c] = over;
  for (const x of [cells[r][c], cells[r][c].parentNode.firstChild, byId("columns").children[c + 1]]) x.classList.add("over");
  const w = data.heads[byId("head").value].weights[r][c];
  byId("value").textContent = `${data.rows[r]} → ${data.columns[c]}: ${(w || 0).toFixed(3)}`;
}
function draw() {
  const weights = data.heads[byId("head").value].weights;
  cells.forEach((row, r) => row.forEach((td, c) => {
    const w = Math.min(1, Math.max(0, weights[r][c] || 0));
    td.style.background = `rgb(${mix(255, 8, w)},${mix(255, 48, w)},${mix(255, 107, w)})`;
  }));
  show();
}
byId("head").onchange = draw;
byId("rows").onmouseover = (e) => {
  if (e.target.tagName !== "TD") return;
  over = [e.target.parentNode.sectionRowIndex, e.target.cellIndex - 1];
  show();
};
draw();
</script></html>
)html";

}  // namespace

std::string alignment_html(const AlignmentPicture& picture) {
  std::string json = alignment_json(picture, 4);
  // "</script>" and "<!--<script" in a token must not say where the script element ends.
  for (size_t at = 0; (at = json.find('<', at)) != std::string::npos;) json.replace(at, 1, "\\u003c");
  std::string page(kPage);
  page.replace(page.find("@DATA@"), 6, json);
  return page;
}

void check_alignment_file(const std::string& file) {
  const std::string extension = std::filesystem::path(file).extension().string();
  if (extension != ".svg" && extension != ".png" && extension != ".html" && extension != ".json")
    throw Error(Error::Kind::kInvalidArgument,
                fmt::format("{}: an alignment is written as .svg, .png, .html or .json, not '{}'", file, extension));
}

void write_alignment(const AlignmentPicture& picture, const std::string& file) {
  check_alignment_file(file);
  const std::string extension = std::filesystem::path(file).extension().string();
  if (extension == ".svg") return write_file(file, alignment_svg(picture, 0));
  if (extension == ".png") return write_file(file, alignment_png(picture, 0));
  if (extension == ".html") return write_file(file, alignment_html(picture));
  write_file(file, alignment_json(picture));
}

}  // namespace attune
