select i_category, sum(case when d_moy=1 then ss_net_paid else 0 end) jan,
  sum(case when d_moy=2 then ss_net_paid else 0 end) feb,
  sum(case when d_moy=3 then ss_net_paid else 0 end) mar, sum(case when d_moy=11 then ss_net_paid end) nov,
  sum(case when d_moy=12 then ss_net_paid end) december
from store_sales
join date_dim on ss_sold_date_sk=d_date_sk
join item on ss_item_sk=i_item_sk
where d_year=2001
group by i_category
order by i_category
