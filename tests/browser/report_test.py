"""Opens reports in Chromium and uses them as a reader would.

BESPOKE_REPORT_PAGES is the program that writes the pages. Where BESPOKE_SCREENSHOTS names a folder,
pictures of both pages are left there, wide and narrow, light and dark. Skips, with status 77, where
Selenium or Chromium is missing or does not start (a machine without the name localhost, say).
"""

import csv
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select, WebDriverWait
except ImportError as error:
    print(f"skipped: {error} (Debian: python3-selenium)")
    sys.exit(77)

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
if not CHROMIUM or not DRIVER:
    print("skipped: no Chromium with its driver (Debian: chromium chromium-driver)")
    sys.exit(77)

WIDE = (1280, 900)
PHONE = (390, 844)
SCREENSHOTS = os.environ.get("BESPOKE_SCREENSHOTS")


def start_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage",
                     "--hide-scrollbars", "--mute-audio"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(DRIVER), options=options)


class ReportPage:
    """What holds for both pages, `page` being the file's name; each test opens its page anew."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        written = subprocess.run([os.environ["BESPOKE_REPORT_PAGES"], cls.folder.name],
                                 stderr=subprocess.PIPE, text=True)
        if written.returncode == 77:
            raise unittest.SkipTest(written.stderr)
        written.check_returncode()
        cls.browser = start_browser()
        cls.addClassCleanup(cls.browser.quit)

    def setUp(self):
        self.open(WIDE, "light")

    def open(self, size, scheme):
        self.emulate(size, scheme)
        self.browser.get_log("browser")  # of earlier pages
        self.browser.get((Path(self.folder.name) / self.page).as_uri())

    def emulate(self, size, scheme):
        """A screen of exactly this size: a window's frame would take some of it."""
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE})
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"}]})

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def script(self, text, *arguments):
        return self.browser.execute_script(text, *arguments)

    def style(self, name):
        return self.script("return getComputedStyle(document.documentElement)"
                           ".getPropertyValue(arguments[0]).trim()", name)

    def lines(self, name):
        """What a chart draws of a solver, as far as it is seen."""
        groups = self.all(f"#chart-psnr g[data-name='{name}']")
        return [group for group in groups if group.is_displayed()]

    def colour_of_the_line(self):
        line = self.lines("bns")[0].find_element(By.CSS_SELECTOR, "polyline")
        return line.value_of_css_property("stroke")

    def screenshot(self, name):
        if not SCREENSHOTS:
            return
        Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
        height = self.script("return document.documentElement.scrollHeight")
        width = self.script("return innerWidth")
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        self.script("document.querySelectorAll('img').forEach((image) => image.decode())")
        self.browser.save_screenshot(str(Path(SCREENSHOTS) / f"{Path(self.page).stem}-{name}.png"))

    def test_charts_are_drawn(self):
        charts = [chart for chart in self.all("svg[role='img']") if chart.is_displayed()]
        self.assertGreaterEqual(len(charts), 4)
        for chart in charts:
            box = chart.rect
            self.assertGreater(box["width"], 300)
            self.assertGreater(box["height"], 100)
            for text in chart.find_elements(By.CSS_SELECTOR, "text"):
                self.assertGreaterEqual(text.rect["x"], box["x"] - 1, text.text)
                self.assertLessEqual(text.rect["x"] + text.rect["width"],
                                     box["x"] + box["width"] + 1, text.text)
        self.assertEqual(len(self.lines("bns")), 1)

    def test_letters_can_be_read(self):
        for size in (WIDE, PHONE):
            self.open(size, "light")
            heights = [text.rect["height"] for text in self.all("svg[role='img'] text")
                       if text.is_displayed()]
            self.assertGreater(len(heights), 20)
            self.assertGreater(min(heights), 9)

    def test_console_is_silent_and_nothing_is_fetched(self):
        severe = [entry for entry in self.browser.get_log("browser")
                  if entry["level"] in ("SEVERE", "WARNING")]
        self.assertEqual(severe, [])
        names = self.script("return performance.getEntriesByType('resource').map((e) => e.name)")
        self.assertEqual([name for name in names if not name.startswith("data:")], [])

    def test_fits_a_phone(self):
        for scheme in ("light", "dark"):
            self.open(PHONE, scheme)
            self.assertEqual(self.script("return innerWidth"), PHONE[0])
            self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), PHONE[0])
            self.screenshot(f"phone-{scheme}")

    def test_looks_right_on_a_desktop(self):
        for scheme in ("light", "dark"):
            self.open(WIDE, scheme)
            self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), WIDE[0])
            self.screenshot(f"desktop-{scheme}")

    def test_follows_the_colour_scheme(self):
        background = "return getComputedStyle(document.body).backgroundColor"
        light, light_accent = self.script(background), self.style("--accent")
        line = self.colour_of_the_line()
        self.emulate(WIDE, "dark")
        self.assertNotEqual(self.script(background), light)
        self.assertNotEqual(self.style("--accent"), light_accent)
        self.assertNotEqual(self.colour_of_the_line(), line)

    def test_sorts_by_a_column(self):
        def figures():
            cells = self.all("table.sortable tbody tr td:nth-child(3)")
            return [cell.get_attribute("data-value") for cell in cells]

        button = self.one("table.sortable th:nth-child(3) button")
        for direction, reverse in (("ascending", False), ("descending", True)):
            button.click()
            found = figures()
            known = [float(value) for value in found if value]
            self.assertEqual(known, sorted(known, reverse=reverse))
            self.assertEqual(found[len(known):], [""])  # the one that diverged comes last
            header = self.one("table.sortable th:nth-child(3)")
            self.assertEqual(header.get_attribute("aria-sort"), direction)

    def test_hides_a_line(self):
        button = self.one("#chart-psnr .legend button.distilled")
        for pressed, seen in (("false", 0), ("true", 1)):
            button.click()
            self.assertEqual(button.get_attribute("aria-pressed"), pressed)
            self.assertEqual(len(self.lines("bns")), seen)
            self.assertEqual(len(self.lines("midpoint")), 1)

    def test_is_reached_by_keyboard(self):
        reached = set()
        body = self.one("body")
        body.send_keys(Keys.TAB)
        for _ in range(200):
            active = self.browser.switch_to.active_element
            if active.tag_name == "body":
                break
            reached.add((active.tag_name, active.get_attribute("class") or active.get_attribute("id")))
            active.send_keys(Keys.TAB)
        self.assertTrue(any(tag == "td" for tag, _ in reached), "no heat map was reached")
        for wanted in (("a", "skip"), ("input", "cost"), ("select", "solver-choice"),
                       ("div", "scroll bounded"), ("button", "copy")):
            self.assertIn(wanted, reached)
        for wanted in (("button", "distilled"), ("select", "target")):
            self.assertIn(wanted, reached)

    def test_reads_out_coefficients(self):
        cell = self.one(".choice:not([hidden]) > .solver td[tabindex='0']")
        cell.click()
        readout = self.one(".choice:not([hidden]) > .solver .readout")
        self.assertTrue(readout.text.startswith("a0 = 1"), readout.text)
        cell.send_keys(Keys.ARROW_DOWN)
        self.assertTrue(readout.text.startswith("a1 = 0.996"), readout.text)
        self.browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
        self.assertTrue(readout.text.startswith("b1,0 = "), readout.text)

    def test_chooses_among_solvers(self):
        shown = [s for s in self.all(".solver") if s.is_displayed()]
        self.assertEqual([s.get_attribute("data-cost") for s in shown], ["8"])
        Select(self.one("#solver-choice")).select_by_visible_text("bns, 16 evaluations")
        shown = [s for s in self.all(".solver") if s.is_displayed()]
        self.assertEqual([s.get_attribute("data-cost") for s in shown], ["16"])

    def test_chooses_what_is_to_be_as_good(self):
        def shown():
            charts = [chart for chart in self.all("#chart-equal svg") if chart.is_displayed()]
            self.assertEqual(len(charts), 1)
            return charts[0].find_element(By.CSS_SELECTOR, "rect title").get_attribute(
                "textContent")

        self.assertEqual(shown(), "bns: 8")
        Select(self.one("#target")).select_by_index(0)
        self.assertEqual(shown(), "bns: 4")

    def test_says_what_everything_is(self):
        self.assertEqual(len(self.all("h1")), 1)
        for image in self.all("img"):
            self.assertTrue(image.get_attribute("alt"))
        for figure in self.all("figure"):
            self.assertTrue(figure.find_elements(By.CSS_SELECTOR, "figcaption"))
        for drawing in self.all("svg:not([aria-hidden])"):
            self.assertTrue(drawing.get_attribute("aria-label"))

    def shown_costs(self):
        strips = self.all(".strip[data-cost]:not([data-cost='0'])")
        return {strip.get_attribute("data-cost") for strip in strips if strip.is_displayed()}

    def test_slides_over_the_number_of_evaluations(self):
        slider = self.one("#cost")
        self.assertEqual(self.shown_costs(), {"8"})
        slider.send_keys(Keys.ARROW_LEFT)
        self.assertEqual(self.shown_costs(), {"4"})
        self.assertEqual(self.one("output").text, "4")
        slider.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        self.assertEqual(self.shown_costs(), {"16"})
        self.assertTrue(self.one(".strip.reference").is_displayed())

    def downloaded(self, link):
        """What a click on a link saves, and under which name."""
        with tempfile.TemporaryDirectory() as folder:
            self.browser.execute_cdp_cmd("Page.setDownloadBehavior",
                                         {"behavior": "allow", "downloadPath": folder})
            self.script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", link)
            link.click()
            # An empty file has the name first, and the content comes under another until it is whole.
            whole = WebDriverWait(self.browser, 30, ignored_exceptions=[FileNotFoundError]).until(
                lambda _: [file for file in Path(folder).iterdir() if file.stat().st_size > 0 and
                           file.suffix != ".crdownload" and not file.name.startswith(".")])
            return whole[0].name, whole[0].read_text()

    def test_downloads_the_figures_and_the_solver(self):
        name, text = self.downloaded(self.one("#figures-csv"))
        rows = list(csv.DictReader(text.splitlines()))
        self.assertEqual(name, "figures.csv")
        self.assertEqual(len(rows), len(self.all("table.sortable tbody tr")))
        self.assertEqual((rows[0]["solver"], rows[0]["psnr_db"], rows[0]["psnr_error_db"]),
                         ("bns", "34.7", "0.31"))
        name, text = self.downloaded(self.one(".choice:not([hidden]) > .solver a.solver-file"))
        self.assertEqual((name, text), ("bns.solver.json", '{"name": "bns"}\n'))

    def test_tables_say_how_sure_they_are(self):
        self.assertIn("34.70 ± 0.31", self.one("table.sortable tbody").text)

    def test_points_say_their_figures(self):
        said = [title.get_attribute("textContent")
                for title in self.all("#chart-psnr .on-wide g[data-name='bns'] title")]
        self.assertIn("bns, 4 evaluations: 34.7 ± 0.31", said)

    def test_says_that_there_is_more_to_the_right(self):
        self.open(PHONE, "light")
        scroll = self.one(".scroll.bounded")
        cue = self.one(".scroll.bounded + .cue")
        self.script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", scroll)
        self.assertTrue(cue.is_displayed())
        self.assertIn("right", cue.text)
        self.script("arguments[0].scrollLeft = 9999", scroll)
        WebDriverWait(self.browser, 5).until(lambda _: "left" in cue.text)

    def test_copies_a_command(self):
        button = self.one(".copy")
        button.click()
        WebDriverWait(self.browser, 5).until(lambda _: button.text in ("Copied", "Selected"))


class ImageReport(ReportPage, unittest.TestCase):
    page = "images.html"

    def loaded(self, selector):
        """The natural widths of images, once each has been scrolled to: they load lazily."""
        images = self.all(selector)
        for image in images:
            self.script("arguments[0].scrollIntoView()", image)
        widths = "return [...document.querySelectorAll(arguments[0])].map((i) => i.naturalWidth)"
        WebDriverWait(self.browser, 10).until(lambda _: all(self.script(widths, selector)))
        return self.script(widths, selector)

    def test_images_are_loaded(self):
        widths = self.loaded(".strip:not([hidden]) img.sample")
        self.assertEqual(widths, [32] * 64)

    def test_switches_to_errors(self):
        error = self.one(".strip.distilled:not([hidden]) img.error")
        self.assertFalse(error.is_displayed())
        self.one("#show-samples").send_keys(Keys.ARROW_RIGHT)
        self.assertTrue(error.is_displayed())
        self.assertFalse(self.one(".strip.distilled:not([hidden]) img.sample").is_displayed())
        self.assertTrue(self.one(".strip.reference img.sample").is_displayed())
        self.assertEqual(self.loaded(".strip:not([hidden]) img.error"), [32] * 56)
        self.screenshot("errors")

    def open_image(self, place=2):
        button = self.all(".strip.distilled:not([hidden]) .zoom")[place]
        self.script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", button)
        button.click()
        return button

    def test_shows_an_image_large_in_every_view(self):
        button = self.open_image()
        self.assertTrue(self.one("#viewer").is_displayed())
        picture = self.one("#viewer-image")
        WebDriverWait(self.browser, 5).until(lambda _: picture.size["width"] > 300)
        self.screenshot("viewer")
        own = button.find_element(By.CSS_SELECTOR, "img.sample").get_attribute("src")
        error = button.find_element(By.CSS_SELECTOR, "img.error").get_attribute("src")
        truth = self.all(".strip.reference img.sample")[2].get_attribute("src")
        for view, sources in (("reference", {truth}), ("difference", {error}),
                              ("sample", {own}), ("flicker", {own, truth})):
            self.one(f"#view-{view}").click()
            seen = set()
            WebDriverWait(self.browser, 5, 0.1).until(
                lambda _: seen.add(picture.get_attribute("src")) or seen == sources)
            self.assertTrue(self.one("#viewer-title").text)
        self.one("#viewer-close").click()
        self.assertFalse(self.one("#viewer").is_displayed())
        self.assertEqual(self.browser.switch_to.active_element, button)

    def test_the_reference_has_no_difference_from_itself(self):
        self.one(".strip.reference .zoom").click()
        self.assertFalse(self.one("#view-flicker").is_displayed())
        self.one("body").send_keys(Keys.ESCAPE)
        self.assertFalse(self.one("#viewer").is_displayed())

    def test_arrows_move_along_the_images(self):
        first, second = self.all(".strip.distilled:not([hidden]) .zoom")[:2]
        first.send_keys(Keys.ARROW_RIGHT)
        self.assertEqual(self.browser.switch_to.active_element, second)
        second.send_keys(Keys.ENTER)
        self.assertTrue(self.one("#viewer").is_displayed())

    def test_has_distances(self):
        self.assertEqual(len(self.all("#chart-frechet_reference svg, #chart-frechet_real svg")), 2)


class AudioReport(ReportPage, unittest.TestCase):
    page = "audio.html"

    def test_sounds_have_a_length(self):
        self.assertEqual(len(self.all(".strip:not([hidden]) audio")), 16)
        lengths = "return [...document.querySelectorAll('audio')].map((a) => a.duration)"
        WebDriverWait(self.browser, 10).until(lambda _: all(self.script(lengths)))
        for length in self.script(lengths):
            self.assertAlmostEqual(length, 1.0, places=2)

    def test_leaves_out_what_is_not_there(self):
        self.assertEqual(self.all("#chart-frechet_reference, #frechet, img:not(.spectrogram)"), [])


def skip_unless_it_starts():
    try:
        start_browser().quit()
    except WebDriverException as error:
        print(f"skipped: Chromium does not start here: {error.msg}")
        sys.exit(77)


if __name__ == "__main__":
    skip_unless_it_starts()
    unittest.main()
