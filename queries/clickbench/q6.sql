-- ClickBench Q6: distinct search phrases.
select count(distinct "SearchPhrase") from hits;
