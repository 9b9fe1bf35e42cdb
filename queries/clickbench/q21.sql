-- ClickBench Q21: addresses with a word in them.
select count(*) from hits where "URL" like '%google%';
