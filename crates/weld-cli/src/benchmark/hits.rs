//! The rows of ClickBench's table `hits`: page views, as a web counter records them, made from random numbers.
//!
//! Skews are like those of the public data, by its published counts and answers: a few counters have most rows (number
//! 62 has 0.7 %), seven rows of eight have no search phrase, a user has six rows and the busiest one some thousands.
//!
//! A hit belongs to a visit, which is of a counter, a user and a day; what they decide is drawn by their number.

use super::random::{Permutation, Sequence, hash};
use super::words::Letters;

/// Draws the table's rows.
pub(super) struct Hits {
    rows: u64,
    users: u64,
    counter_ids: Permutation,
}

/// What a row is made of.
#[derive(Clone, Copy)]
pub(super) struct Hit {
    pub(super) row: u64,
    pub(super) counter: Counter,
    pub(super) user: User,
    visit: u64,
    /// Days since 1970.
    pub(super) date: i32,
    /// Seconds since 1970.
    pub(super) time: i64,
    page: u64,
}

/// A site: its place by number of hits, and the number by which queries know it.
#[derive(Clone, Copy)]
pub(super) struct Counter {
    rank: u64,
    pub(super) id: i32,
}

#[derive(Clone, Copy)]
pub(super) struct User {
    rank: u64,
    pub(super) id: i64,
}

const COUNTERS: u64 = 6500;
/// The site that a tenth of the questions is about, by its place.
const KNOWN_COUNTER: u64 = 14;
const KNOWN_COUNTER_ID: i32 = 62;
/// A site whose name has `google` in it.
const GOOGLE_COUNTER: u64 = 700;
/// Of a user that a question asks for.
const KNOWN_USER_ID: i64 = 435_090_932_899_640_449;
/// Of the first page of the known counter, as a page and as a referer.
const KNOWN_URL_HASH: i64 = 2_868_770_270_353_813_622;
const KNOWN_REFERER_HASH: i64 = 3_594_120_000_172_545_465;
/// 1 July 2013.
const FIRST_DAY: i32 = 15_887;
const DAYS: u64 = 31;
const DAY_SECONDS: i64 = 86_400;

impl Hits {
    pub(super) fn new(rows: u64) -> Hits {
        Hits { rows, users: (rows / 4).max(1), counter_ids: Permutation::new("counter", 200_000) }
    }

    pub(super) fn hit(&self, row: u64) -> Hit {
        let visit = Sequence::new("visit").below(row, (self.rows / 3).max(1));
        let rank = Sequence::new("counter").zipf(visit, COUNTERS, 1.0);
        let id = match rank {
            KNOWN_COUNTER => KNOWN_COUNTER_ID,
            _ => KNOWN_COUNTER_ID + 1 + self.counter_ids.at(rank) as i32,
        };
        let user_rank = Sequence::new("user").zipf(visit, self.users, 0.5);
        let user_id = match user_rank == self.users / 64 {
            true => KNOWN_USER_ID,
            false => (Sequence::new("user id").bits(user_rank) >> 1) as i64,
        };
        let date = FIRST_DAY + Sequence::new("date").below(visit, DAYS) as i32;
        // Most at noon, few at midnight.
        let of_day = (Sequence::new("hour").unit(visit) + Sequence::new("minute").unit(visit)) / 2.0;
        let second = (of_day * DAY_SECONDS as f64) as i64 + Sequence::new("second").below(row, 1800) as i64;
        let hits_of_counter = self.rows as f64 * 0.12 / (rank + 1) as f64;
        Hit {
            row,
            counter: Counter { rank, id },
            user: User { rank: user_rank, id: user_id },
            visit,
            date,
            time: i64::from(date) * DAY_SECONDS + second.min(DAY_SECONDS - 1),
            page: Sequence::new("page").zipf(row, 10 + (hits_of_counter / 2.0) as u64, 0.9),
        }
    }

    pub(super) fn client_ip(&self, user: User) -> i32 {
        let address = Sequence::new("address of user").below(user.rank, (self.users / 5 * 3).max(1));
        Sequence::new("address").bits(address) as i32
    }

    /// Of one hit in eight.
    pub(super) fn search_phrase(&self, hit: &Hit) -> Option<String> {
        let searched = Sequence::new("searching visit").happens(hit.visit, 0.264);
        if !(searched && Sequence::new("searching hit").happens(hit.row, 0.5)) {
            return None;
        }
        let phrase = Sequence::new("phrase").zipf(hit.visit, (self.rows / 10).max(1), 0.7);
        let seed = Sequence::new("phrase words").bits(phrase);
        let letters = if seed.is_multiple_of(5) { Letters::Latin } else { Letters::Cyrillic };
        let mut text = String::new();
        letters.push_words(&mut text, seed, 1 + seed / 5 % 6, " ");
        Some(text)
    }
}

impl Hit {
    pub(super) fn watch_id(&self) -> i64 {
        Sequence::new("watch").bits(self.row) as i64
    }

    pub(super) fn url(&self) -> String {
        self.counter.url(self.page)
    }

    pub(super) fn url_hash(&self, url: &str) -> i64 {
        match (self.counter.rank, self.page) {
            (KNOWN_COUNTER, 0) => KNOWN_URL_HASH,
            _ => hash(url.as_bytes()) as i64,
        }
    }

    /// Pages next to each other share their title.
    pub(super) fn title(&self) -> String {
        let page = self.page / 2;
        let seed = Sequence::new("title").bits((self.counter.rank << 32) | page);
        let mut text = String::new();
        if seed % 50 == 1 {
            return text;
        }
        Letters::Cyrillic.push_words(&mut text, seed, 3 + seed % 7, " ");
        let is_google = self.counter.rank == GOOGLE_COUNTER || seed % 4000 == 2;
        text.push_str(if is_google { " - Google" } else { " - " });
        self.counter.push_name(&mut text);
        text
    }

    /// Nothing, a search engine, or another page of the site; and its hash.
    pub(super) fn referer(&self) -> (String, i64) {
        let mut text = String::new();
        match Sequence::new("referer").below(self.row, 10) {
            0 | 1 => {}
            2..5 => {
                let seed = Sequence::new("referer query").bits(self.visit);
                let site = if seed.is_multiple_of(16) {
                    "https://www.google.ru/search?q="
                } else {
                    "http://yandex.ru/yandsearch?text="
                };
                text.push_str(site);
                Letters::Latin.push_words(&mut text, seed, 1 + seed / 16 % 4, "+");
            }
            _ => {
                let page = Sequence::new("referer page").zipf(self.row, self.page + 10, 0.9);
                text = self.counter.url(page);
                if self.counter.rank == KNOWN_COUNTER && page == 0 {
                    return (text, KNOWN_REFERER_HASH);
                }
            }
        }
        let hash = hash(text.as_bytes()) as i64;
        (text, hash)
    }

    pub(super) fn traffic_source(&self) -> i16 {
        const SOURCES: [i16; 16] = [-1, -1, -1, -1, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 6, 7];
        SOURCES[Sequence::new("source").below(self.row, 16) as usize]
    }

    pub(super) fn search_engine(&self, has_phrase: bool) -> i16 {
        match has_phrase {
            true => 1 + Sequence::new("engine").zipf(self.row, 90, 1.5) as i16,
            false => 0,
        }
    }

    /// Of one hit in 150.
    pub(super) fn advertisement(&self) -> i16 {
        const ENGINES: [i16; 18] = [2, 27, 13, 45, 44, 3, 62, 52, 50, 28, 53, 25, 61, 21, 42, 16, 7, 22];
        match Sequence::new("advertised").happens(self.visit, 0.0063) {
            true => ENGINES[Sequence::new("advertisement").zipf(self.visit, ENGINES.len() as u64, 1.3) as usize],
            false => 0,
        }
    }

    pub(super) fn is_refresh(&self) -> i16 {
        i16::from(Sequence::new("refresh").happens(self.row, 0.12))
    }

    pub(super) fn is_link(&self) -> i16 {
        let probability = if self.counter.rank == KNOWN_COUNTER { 0.06 } else { 0.02 };
        i16::from(Sequence::new("link").happens(self.row, probability))
    }

    pub(super) fn is_download(&self) -> i16 {
        i16::from(Sequence::new("download").happens(self.row, 0.001))
    }

    pub(super) fn does_not_count(&self) -> i16 {
        i16::from(Sequence::new("not counted").happens(self.row, 0.03))
    }

    /// Of the window, which is smaller than the screen.
    pub(super) fn window(&self) -> (i16, i16) {
        let (width, height) = self.user.resolution();
        let less = |name: &str, most: u64| Sequence::new(name).below(self.row, most) as i16;
        ((width - less("less width", 180)).max(0), (height - less("less height", 260)).max(0))
    }
}

impl Counter {
    fn push_name(self, text: &mut String) {
        match self.rank {
            GOOGLE_COUNTER => text.push_str("maps.google.ru"),
            _ => {
                let seed = Sequence::new("site").bits(self.rank);
                Letters::Latin.push_words(text, seed, 1 + seed % 2, "-");
                text.push_str(if seed.is_multiple_of(5) { ".com" } else { ".ru" });
            }
        }
    }

    fn url(self, page: u64) -> String {
        let seed = Sequence::new("url").bits((self.rank << 32) | page);
        let mut text = String::from(if seed.is_multiple_of(20) { "https://" } else { "http://" });
        if self.rank.is_multiple_of(3) {
            text.push_str("www.");
        }
        self.push_name(&mut text);
        text.push('/');
        if page > 0 {
            Letters::Latin.push_words(&mut text, seed, 1 + seed / 32 % 4, "/");
            // The number of the page makes it unlike the others of its site.
            text.push_str(&format!("/{page}.html"));
        }
        match seed / 1024 % 8 {
            0 => text.push_str(&format!("?utm_campaign={}", seed % 100)),
            1 | 2 => text.push_str(&format!("?id={}&page={}", seed % 1_000_000_007, seed % 30)),
            _ => {}
        }
        if seed % 20_000 == 3 {
            text.push_str("#google");
        }
        text
    }
}

impl User {
    pub(super) fn region(self) -> i32 {
        1 + Sequence::new("region").zipf(self.rank, 9000, 1.1) as i32
    }

    pub(super) fn resolution(self) -> (i16, i16) {
        const RESOLUTIONS: [(i16, i16); 16] = [
            (1366, 768),
            (1366, 768),
            (1366, 768),
            (1366, 768),
            (1920, 1080),
            (1920, 1080),
            (1920, 1080),
            (1280, 1024),
            (1280, 1024),
            (1024, 768),
            (1440, 900),
            (1280, 800),
            (1600, 900),
            (1680, 1050),
            (320, 480),
            (0, 0),
        ];
        RESOLUTIONS[Sequence::new("resolution").below(self.rank, 16) as usize]
    }

    /// Of one user in seventeen: the number of its maker, and its name.
    pub(super) fn phone(self) -> (i16, String) {
        let mut model = String::new();
        if !Sequence::new("has phone").happens(self.rank, 0.058) {
            return (0, model);
        }
        let number = Sequence::new("phone").zipf(self.rank, 166, 1.2);
        match number {
            0 => model.push_str("iPad"),
            1 => model.push_str("iPhone"),
            _ => {
                Letters::Latin.push_word(&mut model, number, 0);
                model.push_str(&format!(" {}", 100 + number * 7));
            }
        }
        (1 + (number % 40) as i16, model)
    }
}
