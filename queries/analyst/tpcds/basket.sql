select a.ss_item_sk x, b.ss_item_sk y, count(*) n
from store_sales a
join store_sales b on a.ss_ticket_number=b.ss_ticket_number and a.ss_item_sk<b.ss_item_sk
where a.ss_sold_date_sk between 2451911 and 2451941 and b.ss_sold_date_sk between 2451911 and 2451941
group by 1,2
order by n desc,1,2
limit 20
