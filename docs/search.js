/* The site's search without a worker and without a request, so that it works from file://, too.
   docs/generate.py puts lunr and the pages (SEARCH_DOCS) before it. */
document.addEventListener("DOMContentLoaded", function () {
  var input = document.getElementById("mkdocs-search-query");
  var results = document.getElementById("mkdocs-search-results");
  if (!input || !results) return;
  var index, pages;

  function found(query) {
    if (!index) {
      pages = {};
      index = lunr(function () {
        this.ref("location");
        this.field("title", { boost: 10 });
        this.field("text");
        SEARCH_DOCS.forEach(function (page) {
          pages[page.location] = page;
          this.add(page);
        }, this);
      });
    }
    return index.query(function (q) {
      lunr.tokenizer(query).forEach(function (word) {
        q.term(word.toString(), { boost: 10 });
        q.term(word.toString(), { wildcard: lunr.Query.wildcard.TRAILING });
      });
    });
  }

  function show() {
    results.textContent = "";
    if (input.value.trim().length < 3) return;
    found(input.value).slice(0, 20).forEach(function (hit) {
      var page = pages[hit.ref], article = document.createElement("article");
      var link = article.appendChild(document.createElement("h3")).appendChild(document.createElement("a"));
      link.href = base_url.replace(/\/?$/, "/") + page.location;
      link.textContent = page.title;
      article.appendChild(document.createElement("p")).textContent = page.text.slice(0, 200);
      results.appendChild(article);
    });
    if (!results.firstChild) results.textContent = "Nothing found.";
  }

  input.addEventListener("input", show);
  var asked = new URLSearchParams(window.location.search).get("q");
  if (asked) {
    input.value = asked;
    show();
  }
});
